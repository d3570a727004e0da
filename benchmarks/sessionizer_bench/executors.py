"""The shares of one, two and four executors of one core each in the same work.

Executors are processes of this machine. If they are more than its cores, their times mean nothing, but their shares do.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark

from sessionizer_bench.contestants.race import Race
from sessionizer_bench.measuring import event_log
from sessionizer_bench.measuring.executor_shares import Share, furthest_from_even, shares
from sessionizer_bench.measuring.runner import run_contestant
from sessionizer_bench.places import RUNS
from sessionizer_bench.tournament import prepared
from sessionizer_bench.workloads import BUSY, LARGE, OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME: Final = "executors"
COUNTS: Final = (1, 2, 4)
FILES_PER_BATCH: Final = 16
"""Files of a batch, and so the tasks that read it. Each of the counts divides it."""
WORKLOAD: Final = replace(
    LARGE,
    name=NAME,
    title="200 k-event batches on executors of one core",
    dataset=replace(LARGE.dataset, name=NAME, batches=8, warm_up_batches=2, files_per_batch=FILES_PER_BATCH),
    contestants=(OURS,),
    only_first=(),
)
QUICK: Final = replace(
    WORKLOAD,
    dataset=replace(
        WORKLOAD.dataset,
        name=f"quick-{NAME}",
        batch_events=10_000,
        batches=2,
        warm_up_batches=1,
        traffic=replace(BUSY, users=5_000, events_per_second=100),
    ),
)
EVEN: Final = 0.2
"""Largest deviation of an executor's share from the mean that counts as even, as a part of the mean."""
JUDGED: Final = ("tasks", "shuffle_read_bytes", "shuffle_written_bytes", "open_sessions")

SHOWN: Final = {
    "tasks": ("tasks", 1),
    "run_ms": ("run s", 1_000),
    "shuffle_read_bytes": ("read kB", 1_000),
    "shuffle_written_bytes": ("written kB", 1_000),
    "state_partitions": ("partitions", 1),
    "open_sessions": ("open sessions", 1),
}
"""Titles and units of the columns."""


@dataclass(frozen=True, slots=True)
class Division:
    """The division of a stream's state, and the number of executors of one core."""

    executors: int
    key_groups: int
    partitions: int


def measured(division: Division, *, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the stream with this division, and return its record. Raises RunFailed."""
    workload = QUICK if quick else WORKLOAD
    data = prepared(workload, OURS, say)
    log = _empty(RUNS / f"{NAME}-log")
    race = Race(
        files=data.files,
        files_per_batch=FILES_PER_BATCH,
        folder=RUNS / f"{NAME}-{division.executors}",
        emit_every_s=workload.emit_every_s,
        key_groups=division.key_groups,
    )
    settings = {
        **event_log.settings(log),
        "spark.master": f"local-cluster[{division.executors},1,1024]",
        "spark.sql.shuffle.partitions": str(division.partitions),
    }
    with _spark_home():
        outcome = run_contestant(OURS, race, data.uncounted, settings)
    open_of_group = json.loads((race.folder / "result.json").read_text())["open_of_group"]
    shutil.rmtree(race.folder, ignore_errors=True)
    counts = [int(open_of_group.get(str(group), 0)) for group in range(division.key_groups)]
    (file,) = log.iterdir()
    with file.open() as lines:
        reading = shares((json.loads(line) for line in lines), data.uncounted, counts, division.partitions)
    by_executor = dict(sorted(reading.shares.items()))
    of_all = list(by_executor.values())
    return {
        **asdict(division),
        "events_per_second": outcome["events_per_second"],
        "moves_of_state": reading.stateful_moves,
        "shares": {executor: asdict(share) for executor, share in by_executor.items()},
        "uneven": {name: round(unevenness(of_all, name), 3) for name in JUDGED},
        "load_before": outcome["load_before"],
        "load_after": outcome["load_after"],
    }


def unevenness(of_all: list[Share], name: str) -> float:
    """Return the largest deviation of an executor's share ``name`` from the mean, as a part of the mean."""
    return furthest_from_even(getattr(share, name) for share in of_all)


def lines(record: dict[str, Any]) -> Iterator[str]:
    """Yield the record as lines to print."""
    yield (
        f"{record['executors']} executors, {record['key_groups']} key groups in {record['partitions']} partitions: "
        f"{record['events_per_second']:,.0f} events/s, state moved {record['moves_of_state']} times"
    )
    yield "  executor" + "".join(f"{title:>15}" for title, _ in SHOWN.values())
    for executor, share in record["shares"].items():
        yield f"  {executor:>8}" + "".join(f"{share[name] / unit:>15,.0f}" for name, (_, unit) in SHOWN.items())
    uneven = {name: value for name, value in record["uneven"].items() if value > EVEN}
    told = ", ".join(f"{name} {value:.0%}" for name, value in uneven.items())
    yield f"  not even within {EVEN:.0%}: {told}" if uneven else f"  even within {EVEN:.0%}"


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@contextmanager
def _spark_home() -> Iterator[None]:
    """Use a folder of links to the installed Spark as Spark's home while the block runs.

    Executors would leave their folders in the installed one.
    """
    home = _empty(RUNS / "spark-home")
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]
        shutil.rmtree(home / "work", ignore_errors=True)
