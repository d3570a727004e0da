"""The order of the runs. Contestants take turns in each repetition, so that a slow hour affects all of them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sessionizer_bench.contestants.race import Race
from sessionizer_bench.data.generator import StoredDataset, only_first, stored
from sessionizer_bench.measuring.runner import run_contestant
from sessionizer_bench.places import DATASETS, RUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionizer_bench.workloads import Workload


@dataclass(frozen=True, slots=True)
class Choices:
    """The user's options. Empty ``contestants`` means all of the workload's."""

    repetitions: int = 3
    contestants: tuple[str, ...] = ()
    key_groups: int = 16
    emit_every_s: int | None = None
    peer_sink: str = "native"
    keep: bool = False
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """A run of a contestant on a workload."""

    workload: Workload
    contestant: str
    repetition: int


def turns(workloads: tuple[Workload, ...], choices: Choices) -> Iterator[Turn]:
    """Yield the turns A B C D, A B C D, ... for one workload after the other."""
    for workload in workloads:
        for repetition in range(choices.repetitions):
            for contestant in workload.contestants:
                if not choices.contestants or contestant in choices.contestants:
                    yield Turn(workload, contestant, repetition)


def play(turn: Turn, choices: Choices, say: Callable[[str], None]) -> dict[str, Any]:
    """Run one turn and return its record. Raises RunFailed."""
    data = prepared(turn.workload, turn.contestant, say)
    race = Race(
        files=data.files,
        files_per_batch=turn.workload.dataset.files_per_batch,
        folder=RUNS / f"{turn.workload.name}-{turn.contestant}-{turn.repetition}",
        emit_every_s=choices.emit_every_s or turn.workload.emit_every_s,
        key_groups=choices.key_groups,
        peer_sink=choices.peer_sink,
    )
    outcome = run_contestant(turn.contestant, race, data.uncounted, choices.settings)
    if not choices.keep:
        shutil.rmtree(race.folder, ignore_errors=True)
    return {"workload": turn.workload.name, "repetition": turn.repetition, **outcome}


def prepared(workload: Workload, contestant: str, say: Callable[[str], None]) -> StoredDataset:
    """Return the data of a workload, or its first batches if the contestant gets only those."""
    DATASETS.mkdir(parents=True, exist_ok=True)
    RUNS.mkdir(parents=True, exist_ok=True)
    if not (DATASETS / workload.dataset.folder_name).exists():
        say(f"generating data set {workload.dataset.name}")
    whole = stored(workload.dataset, DATASETS)
    limit = dict(workload.only_first).get(contestant)
    return whole if limit is None else only_first(whole, limit, workload.dataset.files_per_batch)
