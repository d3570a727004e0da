"""Times of a proof, beside the stream that reads the same batches itself, in turns over a new stream each.

One process and one Spark session run all of them. The first turn warms the JVM and does not count.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from sessionizer.deployment.running_spec import new_record
from sessionizer.lineage.kept_spec import write_lineage_spec
from sessionizer.spark.proof.prove import ProofRequest, prove_by_replay
from sessionizer.spark.session import spark_session
from sessionizer_bench.contestants.ours import spec_values
from sessionizer_bench.contestants.race import Race
from sessionizer_bench.data.dataset import Dataset
from sessionizer_bench.data.generator import stored
from sessionizer_bench.driver import SETTINGS
from sessionizer_bench.places import DATASETS, RUNS
from sessionizer_bench.workloads import BUSY
from support.processes.in_process import catch_up
from support.streams.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

DATASETS_PROVED: Final = (
    Dataset("proofs_large", batch_events=200_000, batches=7, traffic=BUSY),
    Dataset("proofs_small", batch_events=10_000, batches=30, traffic=BUSY),
)
"""More than a million events in large batches, and small batches, in which the start of a batch weighs more."""
_ALL: Final = 100
MOST_TIMES: Final = 2.0
"""The promise: a proof takes at most so many times what the stream takes for the same batches."""


def quick() -> tuple[Dataset, ...]:
    """Return data sets of a few batches, which only show that the benchmark works."""
    return tuple(replace(each, name=f"quick_{each.name}", batch_events=2_000, batches=3) for each in DATASETS_PROVED)


def measured(datasets: tuple[Dataset, ...], turns: int, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """Return the figures of each data set: the medians of the ``turns``, and what the last proof found."""
    spark, found = spark_session("benchmark proofs", "local[2]", SETTINGS), {}
    for dataset in datasets:
        taken = []
        for turn in range(turns + 1):
            taken.append(_turn(spark, dataset, RUNS / dataset.name))
            say(f"{dataset.name} {turn}/{turns}: {taken[-1]}")
        seconds = ("itself_s", "replay_s", "proof_s")
        found[dataset.name] = taken[-1] | {name: median(each[name] for each in taken[1:]) for name in seconds}
    spark.stop()
    return found


def lines(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table with a row for each data set."""
    yield "| batches | events | sessions | unexplained | stream itself, s | replay, s | proof, s | times | wanted |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for of in found.values():
        yield (
            f"| {of['batches']} | {of['events']:,} | {of['sessions']:,} | {of['unexplained']} | {of['itself_s']} | "
            f"{of['replay_s']} | {of['proof_s']} | {of['proof_s'] / of['itself_s']:.2f} | ≤ {MOST_TIMES} |"
        )


def _turn(spark: SparkSession, dataset: Dataset, folder: Path) -> dict[str, Any]:
    """Have a new stream read the data set, then prove all of its batches but the first, which has none before it."""
    shutil.rmtree(folder, ignore_errors=True)
    feed = folder / "feed"
    feed.mkdir(parents=True)
    race = Race(feed, dataset.files_per_batch, folder, emit_every_s=30, key_groups=16)
    stage = Stage.set_up(folder, spec_values(race, dataset.name), name=dataset.name)
    files = sorted(stored(dataset, DATASETS).files.iterdir())
    first, later = files[: dataset.files_per_batch], files[dataset.files_per_batch :]
    _feed(feed, first)
    catch_up(spark, stage)
    _feed(feed, later)
    started = time.perf_counter()
    catch_up(spark, stage)
    itself = time.perf_counter()
    home, spec = stage.stream_home, stage.spec()
    write_lineage_spec(home, str(stage.lineage), new_record(home, spec))
    begun = time.perf_counter()
    proof = prove_by_replay(spark, home, spec, ProofRequest(batches=_ALL))
    return {
        "batches": proof.last - proof.first + 1,
        "events": proof.events,
        "sessions": proof.tables[0].old,
        "unexplained": proof.unexplained,
        "itself_s": round(itself - started, 1),
        "replay_s": proof.replay_seconds,
        "proof_s": round(time.perf_counter() - begun, 1),
    }


def _feed(feed: Path, files: list[Path]) -> None:
    for file in files:
        (feed / file.name).hardlink_to(file)
