"""From the real death of a real query to the words of the notifier."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from sessionizer.causes.table import CAUSES
from sessionizer.control.lease import fence
from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.launching.spark_submit import DriverCall
from support.expected.driver_statuses import launched, works
from support.expected.told_causes import MADE, made
from support.faults import spoiled_streams as spoiled
from support.faults.bad_clicks import line
from support.faults.small_disk import fill
from support.faults.spoiled_streams import DELTA_CLICKS, a_commit, a_file
from support.places import REPOSITORY, known
from support.processes.driver_process import executors_of, jvm_of, kill_process, run_to_end, workers_of
from support.processes.kafka_broker import KafkaBroker
from support.processes.watched_stream import WatchedStream, real_driver
from support.streams.click_files import many_clicks_spec, write_many_clicks
from support.streams.stage import CLICK_COLUMNS, Stage, clicks_spec

WITHIN_S = 60.0
EVENTS = 3_000_000
"""In one batch: there is time to do something meanwhile."""


@dataclass(frozen=True)
class Death:
    """What is spoiled after a driver has read `first`, so that it, or else the `next` one, dies of `cause`."""

    cause: str
    spoil: Callable[[Stage], None]
    spec: dict[str, Any]
    first: Callable[[Stage], None] = a_file
    next: bool = False
    names: str = ""
    flags: tuple[str, ...] = ()

    @classmethod
    def of_files(cls, cause: str, spoil: Callable[[Stage], None], names: str = "", *, next: bool = False) -> Death:  # noqa: A002
        return cls(cause, spoil, clicks_spec(), next=next, names=names)

    @classmethod
    def of_delta(cls, cause: str, spoil: Callable[[Stage], None], names: str = "", *, next: bool = False) -> Death:  # noqa: A002
        return cls(cause, spoil, DELTA_CLICKS, a_commit, next, names)


def pid_of_driver(home: StreamHome) -> int:
    return known(launched(home).pid)


def jvm_killed(stage: Stage) -> None:
    jvm = known(jvm_of(pid_of_driver(stage.stream_home)))
    kill_process(jvm)


def column_added(stage: Stage) -> None:
    """The open events have no value for it."""
    spec = clicks_spec()
    spec["mapping"]["payload"]["agent"] = "device"
    stage.write_spec(spec)


def key_groups_changed(stage: Stage) -> None:
    stage.write_spec(clicks_spec() | {"key_groups": 6})


DEATHS = {
    "a field was changed that a start cannot apply": Death(
        "ChangeRefused",
        key_groups_changed,
        clicks_spec(),
        next=True,
        names="sessionizer rescale clicks",
        flags=("--apply",),
    ),
    "a column was added that open sessions lack": Death(
        "NotAccepted", column_added, clicks_spec(), next=True, names="mapping.payload.agent", flags=("--apply",)
    ),
    "the checkpoint lost its state": Death.of_files(
        "state_not_at_head", spoiled.state_removed, "CANNOT_LOAD_STATE_STORE", next=True
    ),
    "a commit was cut short": Death.of_files(
        "state_not_at_head", spoiled.commit_cut_short, "checkpoint/commits/", next=True
    ),
    "the state is of another time mode": Death.of_files(
        "state_refused", spoiled.state_of_another_time_mode, "timeMode", next=True
    ),
    "the folder of the state is gone": Death.of_files(
        "state_silent", spoiled.state_is_no_folder_any_more, "STATE_STORE"
    ),
    "another query writes to the checkpoint": Death.of_files(
        "lease_lost", spoiled.batches_of_another, "Multiple streaming jobs"
    ),
    "the JVM was killed": Death.of_files("driver_jvm_died", jvm_killed),
    "the log of a Delta source was truncated": Death.of_delta(
        "source_data_loss", spoiled.log_truncated, "DELTA_MISSING_FILES", next=True
    ),
    "rows were deleted from a Delta source": Death.of_delta("source_rewritten", spoiled.rows_deleted, "deleted data"),
    "a column of a Delta source has another type": Death.of_delta(
        "schema_change", spoiled.column_of_another_type, "DELTA_SCHEMA_CHANGED"
    ),
    "a file of a Delta source is damaged": Death.of_delta("bad_data", spoiled.file_damaged, ".snappy.parquet"),
}


@made(*(death.cause for death in DEATHS.values()))
@pytest.mark.long
@pytest.mark.parametrize("name", DEATHS)
def test_what_people_are_told_of_a_query_that_died(name: str, watched: WatchedStream) -> None:
    death = DEATHS[name]
    stage = watched.stage(death.spec)
    death.first(stage)
    if death.next:
        run_to_end(stage, "a", until="caught-up")
    else:
        watched.drive(lambda: works(watched.home))
    death.spoil(stage)
    watched.drive(command=lambda call: [*real_driver(call), *death.flags])
    watched.check(death.cause, names=death.names)
    watched.check_status(death.cause)


@made("disk_full")
@pytest.mark.long
def test_what_people_are_told_of_a_full_disk(watched: WatchedStream, small_disk: Path) -> None:
    stage = watched.stage(clicks_spec() | {"sink": {"path": str(small_disk / "tables")}})
    a_file(stage)
    run_to_end(stage, "a", until="caught-up")
    spoiled.a_file_for_the_quarantine(stage, 2)
    fill(small_disk, left=0)
    watched.drive()
    watched.check("disk_full")
    watched.check_status("disk_full")


def made_anew(broker: KafkaBroker, topic: str) -> None:
    gone(broker, topic)
    broker.create_topic(topic, partitions=2)
    produce(broker, topic, 40)


def gone(broker: KafkaBroker, topic: str) -> None:
    broker.delete_topic(topic)


def forbidden(broker: KafkaBroker, topic: str) -> None:
    broker.forbid_reading(topic)


OF_TOPICS = {
    "made anew": ("SourceReplaced", made_anew, False),
    "gone": ("SourceMissing", gone, False),
    "forbidden": ("SourceForbidden", forbidden, False),
    "forbidden meanwhile": ("source_forbidden", forbidden, True),
    "gone meanwhile": ("source_missing", gone, True),
}


@made(*(cause for cause, _, _ in OF_TOPICS.values()))
@pytest.mark.usefixtures("tuned")
@pytest.mark.long
@pytest.mark.parametrize("name", OF_TOPICS)
def test_what_people_are_told_of_a_topic(
    name: str, watched: WatchedStream, kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    cause, spoil, meanwhile = OF_TOPICS[name]
    source = {
        "format": "kafka", "bootstrap_servers": kafka_broker.bootstrap_servers, "topic": kafka_topic,
        "encoding": "json", "columns": CLICK_COLUMNS,
    }  # fmt: skip
    stage = watched.stage(clicks_spec() | {"source": source})
    produce(kafka_broker, kafka_topic, 20)
    if meanwhile:
        watched.drive(lambda: works(watched.home))
    else:
        run_to_end(stage, "a", until="caught-up")
    spoil(kafka_broker, kafka_topic)
    watched.drive()
    watched.check(cause, names=kafka_topic)


def produce(broker: KafkaBroker, topic: str, events: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 2})
    for number in range(events):
        producer.produce(topic, line(number + 1, "ann").rstrip())
    assert producer.flush(WITHIN_S) == 0


@made("memory")
@pytest.mark.long
def test_what_people_are_told_of_a_full_heap(watched: WatchedStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "512m")
    spec = clicks_spec()
    spec["mapping"]["payload"] = {"page": "repeat(left(page, 1), 1500000000)"}
    a_file(watched.stage(spec))
    watched.drive()
    watched.check("memory", names="java.lang.OutOfMemoryError")
    watched.check_status("memory")


def is_in_a_batch(home: StreamHome) -> bool:
    beat = HEARTBEAT_FILE.of(home).read()
    return beat is not None and beat.uid == launched(home).uid and bool(beat.running_tasks)


@made("executor_lost")
@pytest.mark.long
def test_what_people_are_told_of_a_lost_executor(watched: WatchedStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.task.maxFailures=1 pyspark-shell")
    write_many_clicks(watched.stage(many_clicks_spec()).feed, EVENTS)
    watched.drive(lambda: is_in_a_batch(watched.home), on_a_cluster)
    for pid in executors_of(pid_of_driver(watched.home)):
        kill_process(pid)
    watched.drive(command=on_a_cluster)
    watched.check("executor_lost")
    watched.check_status("executor_lost")


def on_a_cluster(call: DriverCall) -> list[str]:
    return [*real_driver(call), "--master", "local-cluster[1,1,1024]"]


@made("no_progress")
@pytest.mark.long
def test_what_people_are_told_of_a_task_that_hangs(watched: WatchedStream) -> None:
    write_many_clicks(watched.stage(many_clicks_spec()).feed, EVENTS)
    watched.drive(lambda: is_in_a_batch(watched.home))
    workers = workers_of(pid_of_driver(watched.home))
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    try:
        watched.drive(patience={"stale_limit_ms": 12_000})
    finally:
        for pid in workers:
            kill_process(pid)
    watched.check("no_progress", names="no progress for 12 s")
    watched.check_status("no_progress")


@made("LeaseLost")
@pytest.mark.long
def test_people_are_not_told_of_a_driver_that_makes_way_for_another(watched: WatchedStream) -> None:
    """Whoever takes the lease from it knows why, and tells that."""
    a_file(watched.stage(clicks_spec()))
    watched.drive(lambda: works(watched.home))
    first = launched(watched.home).uid
    fence(watched.home)
    watched.drive(lambda: launched(watched.home).uid != first)
    ended = known(EXIT_FILE.of(watched.home, first).read())
    assert (ended.outcome, ended.error_type) == (ExitOutcome.LEASE_LOST, "LeaseLost")
    assert watched.told == []


OF_COMMANDS: Final = "it ends a command that somebody has typed, which tells them itself: no supervisor sees it"
SAVING_AND_RESTORING: Final = (
    "UnknownSavepoint", "UnusableSavepoint", "NothingToSave", "BatchOutrun", "HalfWrittenBatch", "UnfaithfulState",
    "MigrationRefused", "StreamBegun", "PlanChanged", "EventsGone", "EventsUnread", "NoWayBack", "RowsGone", "RowsLeft",
    "DriverStillRuns", "StreamMovedOn", "OperationPastReturn", "StreamRunsAgain", "StreamChanged", "ReleaseBroken",
    "SourceFileUnfit",
)  # fmt: skip
INSTALLING: Final = ("JarsNotFetched", "JvmNotStarted", "LookupNotInstalled")
LOOKING: Final = (
    "NothingToShow", "NothingToProve", "ReplayDiffers", "StillThere", "DamagedCheckpoint", "UnforeseenContent",
    "NoWorkingFolder",
)  # fmt: skip
ON_CLUSTERS: Final = "it takes a cluster: tests/e2e/cluster makes the real one and reads what people are told"
ON_TABLES: Final = "a batch that fails is told in one way: tests/spark/sinks/test_readers.py makes a real rule"
BY_FILES: Final = "tests/unit/fleet/test_any_damaged_file.py makes files that cannot be read, for every reader"
OTHERS: Final = {
    **dict.fromkeys((*SAVING_AND_RESTORING, *LOOKING, *INSTALLING), OF_COMMANDS),
    **dict.fromkeys(("HomeNotShared", "ExecutorsUnfit"), ON_CLUSTERS),
    **dict.fromkeys(("table_rule", "table_conflict", "table_log_damaged", "table_too_new"), ON_TABLES),
    "UnreadablePath": BY_FILES,
}
"""Causes of which no alert is told, each with the reason."""


def test_the_documentation_has_each_cause() -> None:
    table = (REPOSITORY / "docs" / "operating.md").read_text().partition("## Causes")[2].partition("\n## ")[0]
    assert {name for name in CAUSES if OTHERS.get(name) != OF_COMMANDS and f"`{name}`" not in table} == set()


def test_each_cause_is_made_for_real_or_said_why_not() -> None:
    for file in Path(__file__).parent.glob("test_told_of_*.py"):
        import_module(file.stem)
    assert MADE | set(OTHERS) == set(CAUSES)
    assert not MADE & set(OTHERS)
