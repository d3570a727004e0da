"""Rate of a driver over a million open sessions: without the table ``open_sessions``, with it, and with measures."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import yaml

from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import require_lineage
from sessionizer_bench.contestants.ours import spec_values
from sessionizer_bench.contestants.race import Race
from sessionizer_bench.data.generator import stored
from sessionizer_bench.measuring.runner import environment
from sessionizer_bench.places import DATASETS, JOBS, RUNS
from sessionizer_bench.workloads import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionizer_bench.data.dataset import Dataset

NAME: Final = "open_sessions"
DATASET: Final = SMALL.dataset
PROMISE: Final = 0.95
WITHOUT: Final = "without the table"
MEASURES: Final = {"pages": "count(data)", "first_page": "min(data)"}


@dataclass(frozen=True, slots=True)
class Way:
    """A spec to measure: ``every``: time between two snapshots of the open sessions, None for no table."""

    name: str
    every: str | None
    measures: dict[str, str]


WAYS: Final = (
    Way(WITHOUT, None, {}),
    Way("every minute", "1 minute", {}),
    Way("measures, without the table", None, MEASURES),
    Way("measures, every minute", "1 minute", MEASURES),
)


def quick() -> Dataset:
    """Return a hundredth of the data set, which only shows that the benchmark works."""
    traffic = replace(SMALL.dataset.traffic, users=30_000, events_per_second=36)
    return replace(SMALL.dataset, name="quick-small", traffic=traffic, batch_events=400)


def measured(dataset: Dataset, repetitions: int, say: Callable[[str], None]) -> dict[str, list[float]]:
    """Return the events per second of each way, in turns."""
    rates: dict[str, list[float]] = {way.name: [] for way in WAYS}
    for _ in range(repetitions):
        for way in WAYS:
            rates[way.name].append(_rate(dataset, way))
            say(f"{way.name}: {rates[way.name][-1]:,.0f} events/s")
    return rates


def lines(rates: dict[str, list[float]]) -> Iterator[str]:
    """Yield the medians and the ratios as lines to print."""
    for without, way in zip(WAYS[::2], WAYS[1::2], strict=True):
        pairs = [now / before for now, before in zip(rates[way.name], rates[without.name], strict=True)]
        yield f"{way.name}: {median(rates[way.name]):,.0f} events/s beside {median(rates[without.name]):,.0f}: "
        yield f"  {median(pairs):.3f} × (promised: at least {PROMISE} ×), {len(pairs)} pairs"


def _rate(dataset: Dataset, way: Way) -> float:
    """Run a driver over the data, and return its events per second from its last uncounted batch to its newest."""
    data, folder = stored(dataset, DATASETS), RUNS / NAME
    shutil.rmtree(folder, ignore_errors=True)
    streams = folder / "streams"
    streams.mkdir(parents=True)
    race = Race(data.files, dataset.files_per_batch, folder, emit_every_s=SMALL.emit_every_s, key_groups=16)
    values: dict[str, Any] = {**spec_values(race, NAME), "measures": way.measures}
    values["sink"] = {"open_sessions_every": way.every}
    (streams / f"{NAME}.yaml").write_text(yaml.safe_dump(values))
    places = ["--streams", str(streams), "--home", str(folder / "home")]
    command = [
        sys.executable,
        str(JOBS / "main.py"),
        "run",
        NAME,
        *places,
        "--until",
        "caught-up",
        "--master",
        "local[2]",
    ]
    with (RUNS / f"{NAME}.log").open("wb") as log:
        subprocess.run(command, env=environment(), stdout=log, stderr=log, check=True)
    home = StreamHome.of(folder / "home", NAME)
    commits = folder / "home/streams" / NAME / "lineages" / require_lineage(home) / "checkpoint/commits"
    at = [(commits / str(batch)).stat().st_mtime for batch in (data.uncounted - 1, data.uncounted + data.batches - 1)]
    return data.batches * dataset.batch_events / (at[1] - at[0])
