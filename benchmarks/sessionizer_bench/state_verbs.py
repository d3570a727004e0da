"""Times of the commands on a stream's state, each beside its peer, in turns over one stopped stream.

One process and one Spark session run all of them. The first turn warms the JVM and does not count.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
import yaml

from sessionizer.checkpoint.log_entries import PARTITIONS
from sessionizer.control.execution import execute
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.operation import Operation, new_operation
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import CHECKPOINT, OPEN_EVENTS, StreamHome
from sessionizer.spark.session import spark_session
from sessionizer.spark.state.commands.moves import RescaleRunner
from sessionizer.spark.state.commands.restores import RestoreRunner
from sessionizer.spark.state.savepoints.saved_state import make_savepoint, savepoint_table
from sessionizer.state.commands.moves import Rescale
from sessionizer.state.commands.restores import Restore
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.listing import complete_savepoint, list_savepoints
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, install, make_native_savepoint
from sessionizer_bench.contestants.ours import spec_values
from sessionizer_bench.contestants.race import Race
from sessionizer_bench.data.generator import stored
from sessionizer_bench.driver import SETTINGS
from sessionizer_bench.measuring import machine
from sessionizer_bench.measuring.runner import environment
from sessionizer_bench.places import DATASETS, JOBS, RUNS
from sessionizer_bench.upgrades import PROMISES as UPGRADES
from sessionizer_bench.upgrades import Upgrades
from sessionizer_bench.workloads import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.home.stream_home import SavepointHome
    from sessionizer.state.savepoints.manifest import Manifest
    from sessionizer_bench.data.dataset import Dataset

NAME: Final = "state"
STOPPED: Final = "restore, while the stream is stopped"
SHOW: Final = "state show of one key, the whole command"
SHOWN_WITHIN_S: Final = 3.0
PROMISES: Final = (
    ("canonical savepoint", "copy to Parquet", 2.0),
    ("restore", "copy to Parquet", 2.0),
    ("native savepoint", "cp of its files", 1.2),
    ("rescale", "Spark's repartition", 1.5),
)
"""Commands, their peers, and the promised upper bound of the ratio of their times."""
MILLION: Final = replace(SMALL.dataset, name=NAME, batches=1, warm_up_batches=0, history_events=8)
"""Data set of about a million open sessions with their last eight events."""


def quick() -> Dataset:
    """Return a hundredth of the data set, which only shows that the benchmark works."""
    traffic = replace(MILLION.traffic, users=30_000, events_per_second=36)
    return replace(MILLION, name="quick-state", traffic=traffic, batch_events=2_000)


@dataclass(slots=True)
class Bench:
    """A stopped stream whose state the commands work on.

    ``took``: the seconds of each turn, by work. ``steps``: those of the newest upgrade with a migration, by step.
    """

    spark: SparkSession
    home: StreamHome
    folder: Path
    key: str
    took: dict[str, list[float]] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)

    def timed(self, what: str, work: Callable[[], object]) -> None:
        """Do ``work``, and note its time under ``what``."""
        started = time.perf_counter()
        work()
        self.took.setdefault(what, []).append(round(time.perf_counter() - started, 3))

    def show(self) -> None:
        """Show the open sessions of one key, in a process of its own."""
        command = [sys.executable, str(JOBS / "main.py"), "state", "show", self.home.name, "--key", self.key]
        command += ["--home", str(self.home.platform)]
        subprocess.run(command, env=environment(), check=True, capture_output=True)

    def savepoint(self, turn: int, *, native: bool) -> tuple[SavepointHome, Manifest]:
        """Make a savepoint."""
        name = f"{'native' if native else 'canonical'}-{turn}"
        asked, committed = SavepointRequest(self.home.savepoints, "benchmark", name), read_committed_batch(self.home)
        if native:
            make_native_savepoint(self.home, committed, asked, lambda _: None)
        else:
            make_savepoint(self.spark, self.home, committed, asked, lambda _: None)
        return complete_savepoint(self.home.savepoints, name, epoch_ms())

    def restore(self, savepoint: SavepointHome, manifest: Manifest) -> None:
        """Restore the savepoint as the command does, from its plan on."""
        runner = RestoreRunner(
            spark=self.spark, home=self.home, command=Restore(canary=0), savepoint=savepoint, manifest=manifest
        )
        plan = runner.look()
        name, digest = Restore.name, plan.digest
        record = new_operation(self.home, name, digest, "benchmark", plan.leaves, savepoint=savepoint.id)
        job = Maintenance(record.id, "benchmark", "a benchmark", record.wanted)
        with runner.prepared(record):
            stopped = time.perf_counter()
            with hold_lease(self.home, job, 60, lambda _: None) as lease:
                execute(Operation(self.home, record, lease.check), runner)
            self.took.setdefault(STOPPED, []).append(round(time.perf_counter() - stopped, 3))

    def rescale(self) -> None:
        """Rescale the state to as many partitions as ``repartition`` makes."""
        committed = read_committed_batch(self.home)
        groups, command = int(committed.spec["key_groups"]), Rescale(partitions=self.other_partitions(), canary=0)
        plan = command.plan(self.home.name, committed, groups)
        operation = Operation(
            self.home, new_operation(self.home, command.name, plan.digest, "benchmark", plan.leaves), lambda: None
        )
        execute(operation, RescaleRunner(spark=self.spark, home=self.home, command=command, key_groups=groups))

    def other_partitions(self) -> int:
        """Return twice as many partitions as the state had at first, and in the next turn as many as at first."""
        return 4 if int(read_committed_batch(self.home).settings[PARTITIONS]) == 2 else 2  # noqa: PLR2004  of two cores, and twice

    def repartition(self, copy: Path) -> None:
        """Repartition a copy of the same checkpoint with Spark's own private method, which works in place."""
        self.spark._streamingCheckpointManager.repartition(str(copy), self.other_partitions())  # noqa: SLF001  the peer is private

    def beside_peers(self, number: int) -> None:
        """Run each command that has a peer once, next to it."""
        made: list[tuple[SavepointHome, Manifest]] = []
        self.timed(SHOW, self.show)
        self.timed("canonical savepoint", lambda: made.append(self.savepoint(number, native=False)))
        rows = savepoint_table(self.spark, made[0][0], OPEN_EVENTS)
        self.timed("copy to Parquet", lambda: rows.write.parquet(str(self.folder / f"copy-{number}")))
        self.timed("native savepoint", lambda: made.append(self.savepoint(number, native=True)))
        files = made[1][0].part(CHECKPOINT)
        self.timed("cp of its files", lambda: _copied(uri_of(files), self.folder / f"cp-{number}"))
        self.timed("restore", lambda: self.restore(*made[0]))
        copy = self.folder / f"repartitioned-{number}"
        install(*made[1], copy)
        self.timed("Spark's repartition", lambda: self.repartition(copy))
        self.timed("rescale", self.rescale)

    def upgrade(self, number: int) -> None:
        """Upgrade the stream in place, then with a migration."""
        upgrades = Upgrades(self.spark, self.home, self.folder / "streams")
        for what, took in upgrades.turn(number).items():
            self.took.setdefault(what, []).append(took)
        self.steps = upgrades.steps


def measured(
    dataset: Dataset, repetitions: int, say: Callable[[str], None], *, only_upgrades: bool = False
) -> dict[str, Any]:
    """Return the seconds of each command and of its peer, with the medians of all turns but the first."""
    folder = RUNS / dataset.name
    shutil.rmtree(folder, ignore_errors=True)
    home = streamed(dataset, folder, say)
    spark = spark_session("benchmark state", "local[2]", SETTINGS)
    bench = Bench(spark, home, folder, _a_key(dataset))
    for number in range(repetitions + 1):
        if not only_upgrades:
            bench.beside_peers(number)
        bench.upgrade(number)
        say(f"state {number}/{repetitions}: {', '.join(f'{what} {took[-1]}' for what, took in bench.took.items())}")
    counts = next(
        each.manifest.counts
        for each in list_savepoints(home.savepoints, epoch_ms())
        if each.manifest and each.manifest.counts
    )
    spark.stop()
    medians = {what: median(took[1:] or took) for what, took in bench.took.items()}
    return {
        "workload": NAME,
        "open_sessions": counts.sessions,
        "open_events": counts.events,
        "seconds": bench.took,
        "median_s": medians,
        "steps_of_the_last_migration_s": bench.steps,
        "ratios": {what: round(medians[what] / medians[peer], 2) for what, peer, _ in PROMISES if what in medians},
        "load_after": machine.load_average(),
    }


def lines(record: dict[str, Any]) -> Iterator[str]:
    """Yield the record as lines to print."""
    yield f"{record['open_sessions']:,} open sessions of {record['open_events']:,} events"
    median_s = record["median_s"]
    for what, peer, at_most in PROMISES:
        if what not in median_s:
            continue
        yield (
            f"{what}: {median_s[what]:.1f} s, {peer}: {median_s[peer]:.1f} s: {record['ratios'][what]} × "
            f"(promised: at most {at_most} ×)"
        )
    if STOPPED in median_s:
        yield f"{STOPPED}: {median_s[STOPPED]:.1f} s (promised: at most 15 s)"
    for what, at_most_s in UPGRADES.items():
        yield f"{what}: {median_s[what]:.1f} s (promised: at most {at_most_s:.0f} s)"
    steps = ", ".join(f"{name} {took}" for name, took in record["steps_of_the_last_migration_s"].items())
    yield f"its steps in the last turn (s): {steps}"
    if SHOW in median_s:
        yield f"{SHOW}: {median_s[SHOW]:.1f} s (promised: at most {SHOWN_WITHIN_S:.0f} s)"


def streamed(dataset: Dataset, folder: Path, say: Callable[[str], None]) -> StreamHome:
    """Return the stream, stopped after all batches of the data set."""
    DATASETS.mkdir(parents=True, exist_ok=True)
    data = stored(dataset, DATASETS)
    race = Race(data.files, dataset.files_per_batch, folder, emit_every_s=120, key_groups=16)
    streams = folder / "streams"
    streams.mkdir(parents=True)
    (streams / f"{NAME}.yaml").write_text(yaml.safe_dump(spec_values(race, NAME)))
    options = [
        "--streams",
        str(streams),
        "--home",
        str(folder / "home"),
        "--until",
        "caught-up",
        "--master",
        "local[2]",
    ]
    say("streaming what is to be open")
    with (RUNS / f"{dataset.name}.log").open("wb") as log:
        command = [sys.executable, str(JOBS / "main.py"), "run", NAME, *options]
        subprocess.run(command, env=environment(), stdout=log, stderr=log, check=True)
    return StreamHome.of(folder / "home", NAME)


def _a_key(dataset: Dataset) -> str:
    """Return the user of the newest event, whose session is open.

    The files are read without Spark, because its JVM must be cold for the first ``show``.
    """
    newest = max(stored(dataset, DATASETS).files.iterdir(), key=lambda file: (file.stat().st_mtime, file.name))
    rows = pq.read_table(newest, columns=["user_id", "event_time"]).sort_by([("event_time", "descending")])
    return str(rows.column("user_id")[0].as_py())


def _copied(source: str, target: Path) -> None:
    subprocess.run(["/bin/cp", "-r", source, str(target)], check=True)
