"""From the real death of a real query to the words of the notifier: what is told is what the table of causes says."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from sessionizer.causes.table import CAUSES
from sessionizer.cli.app import app
from sessionizer.control.records.heartbeat import read_heartbeat
from sessionizer.control.records.launch_record import read_launch
from sessionizer_airflow.launching.argv import Folders
from sessionizer_airflow.launching.local import LocalLauncher
from support.faults.bad_clicks import click, line
from support.faults.small_disk import fill
from support.places import REPOSITORY
from support.processes.driver_process import executors_of, kill_process, run_to_end
from support.processes.file_notifier import settle_and_tell, told
from support.streams.many_clicks import many_clicks_spec, write_many_clicks
from support.streams.stage import CLICK_COLUMNS, Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessionizer_airflow.launching.argv import DriverCall
    from sessionizer_airflow.supervision.act import Supervisor
    from support.processes.kafka_broker import KafkaBroker

WITHIN_S = 60.0
EVENTS = 3_000_000
"""In one batch: there is time to end an executor."""
DRIVER = REPOSITORY / "jobs" / "main.py"
CLICK_TYPES = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("event_id", "user_id", "client")),
        pa.field("ts", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("type", "page", "device")),
        pa.field("amount", pa.float64()),
        pa.field("timeout_s", pa.int32()),
    ]
)


@dataclass(frozen=True)
class Death:
    """What is spoiled after a driver has read `first`, so that the next one dies of `cause`."""

    cause: str
    spec: dict[str, Any]
    first: Callable[[Stage], None]
    spoil: Callable[[Stage], None]


def a_file(stage: Stage) -> None:
    (stage.feed / "1.json").write_bytes(line(1, "ann"))


def state_removed(stage: Stage) -> None:
    (stage.feed / "2.json").write_bytes(line(2, "ann"))
    kept = [*stage.checkpoint.glob("state/**/*.changelog"), *stage.checkpoint.glob("state/**/*.zip")]
    assert kept
    for file in kept:
        file.unlink()


def a_commit(stage: Stage, number: int = 1) -> None:
    write_deltalake(stage.feed, pa.Table.from_pylist([click(number, "ann")], CLICK_TYPES), mode="append")


def log_truncated(stage: Stage) -> None:
    """As by the retention of a log, with commits that no driver has read."""
    for number in range(2, 7):
        a_commit(stage, number)
    table = DeltaTable(stage.feed)
    table.create_checkpoint()
    for version in range(table.version()):
        (stage.feed / "_delta_log" / f"{version:020}.json").unlink()


DELTA = clicks_spec() | {"source": {"format": "delta", "path": "feed", "options": {"maxFilesPerTrigger": 1}}}
DEATHS = {
    "the checkpoint lost its state": Death("state_not_at_head", clicks_spec(), a_file, state_removed),
    "the log of a Delta source was truncated": Death("source_data_loss", DELTA, a_commit, log_truncated),
}


@pytest.mark.long
@pytest.mark.parametrize("name", DEATHS)
def test_what_people_are_told_of_a_query_that_died(
    name: str, notified: Path, new_supervisor: Callable[[], Supervisor], tmp_path: Path, said: Any
) -> None:
    death = DEATHS[name]
    stage = Stage.set_up(tmp_path, death.spec, home=tmp_path)
    death.first(stage)
    run_to_end(stage, "a", until="caught-up")
    death.spoil(stage)
    watch(stage, notified, new_supervisor, said)
    check("gave_up", death.cause, stage, notified, said)


@pytest.mark.long
def test_what_people_are_told_of_a_full_disk(
    notified: Path, new_supervisor: Callable[[], Supervisor], tmp_path: Path, small_disk: Path, said: Any
) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec() | {"sink": {"path": str(small_disk / "tables")}}, home=tmp_path)
    a_file(stage)
    run_to_end(stage, "a", until="caught-up")
    (stage.feed / "2.json").write_bytes(b"for the quarantine")
    fill(small_disk, left=0)
    watch(stage, notified, new_supervisor, said)
    check("waiting", "disk_full", stage, notified, said)


@pytest.mark.long
def test_what_people_are_told_of_a_topic_made_anew(
    kafka_broker: KafkaBroker,
    kafka_topic: str,
    notified: Path,
    new_supervisor: Callable[[], Supervisor],
    tmp_path: Path,
    said: Any,
) -> None:
    address = kafka_broker.bootstrap_servers
    source = {
        "format": "kafka", "bootstrap_servers": address, "topic": kafka_topic, "encoding": "json",
        "columns": CLICK_COLUMNS,
    }  # fmt: skip
    stage = Stage.set_up(tmp_path, clicks_spec() | {"source": source}, home=tmp_path)
    produce(kafka_broker, kafka_topic, 20)
    run_to_end(stage, "a", until="caught-up")
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_topics([kafka_topic])[kafka_topic].result(timeout=WITHIN_S)
    kafka_broker.create_topic(kafka_topic, partitions=2)
    produce(kafka_broker, kafka_topic, 2)
    watch(stage, notified, new_supervisor, said)
    check("gave_up", "source_data_loss", stage, notified, said)


def produce(broker: KafkaBroker, topic: str, events: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 2})
    for number in range(events):
        producer.produce(topic, line(number + 1, "ann").rstrip())
    assert producer.flush(WITHIN_S) == 0


@pytest.mark.long
def test_what_people_are_told_of_a_full_heap(
    notified: Path,
    new_supervisor: Callable[[], Supervisor],
    tmp_path: Path,
    said: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "512m")
    spec = clicks_spec()
    spec["mapping"]["payload"] = {"page": "repeat(left(page, 1), 1500000000)"}
    stage = Stage.set_up(tmp_path, spec, home=tmp_path)
    a_file(stage)
    watch(stage, notified, new_supervisor, said)
    check("replaced", "memory", stage, notified, said)


@pytest.mark.long
def test_what_people_are_told_of_a_lost_executor(
    notified: Path,
    new_supervisor: Callable[[], Supervisor],
    tmp_path: Path,
    said: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.task.maxFailures=1 pyspark-shell")
    stage = Stage.set_up(tmp_path, many_clicks_spec(), home=tmp_path)
    write_many_clicks(stage.feed, EVENTS)
    deadline = time.monotonic() + 180
    while not told(notified):
        assert time.monotonic() < deadline, said
        supervisor = new_supervisor()
        settle(supervisor, stage, said, on_a_cluster)
        end_executors_at_work(stage)
        time.sleep(0.2)
    check("waiting", "executor_lost", stage, notified, said)


def on_a_cluster(call: DriverCall) -> list[str]:
    return [*real(call), "--master", "local-cluster[1,1,1024]"]


def end_executors_at_work(stage: Stage) -> None:
    launch, beat = read_launch(stage.stream_home), read_heartbeat(stage.stream_home)
    if launch is None or beat is None or beat.uid != launch.uid or not beat.running_tasks or launch.pid is None:
        return
    for pid in executors_of(launch.pid):
        kill_process(pid)


def watch(stage: Stage, notified: Path, new_supervisor: Callable[[], Supervisor], said: Any) -> None:
    """Supervise the stream until people are told something."""
    deadline = time.monotonic() + 180
    while not told(notified):
        assert time.monotonic() < deadline, said
        settle(new_supervisor(), stage, said)
        time.sleep(0.2)


def check(kind: str, cause: str, stage: Stage, notified: Path, said: Any) -> None:
    """Each place where it is told has the remedy for the cause."""
    (alert,) = told(notified)
    remedy = CAUSES[cause].remedy
    assert (alert["kind"], alert["stream"]) == (kind, "clicks"), said
    assert remedy in alert["what_to_do"]
    assert remedy in alert["text"]
    assert any(remedy in heard for heard in said), "the task log says it, too"
    places = ["--streams", str(stage.streams), "--home", str(stage.home)]
    assert remedy in CliRunner().invoke(app, ["status", "clicks", *places]).stdout


def settle(
    supervisor: Supervisor, stage: Stage, said: Any, command: Callable[[DriverCall], list[str]] | None = None
) -> None:
    supervisor.folders = Folders(home=stage.home, streams=stage.streams)
    supervisor.launcher = LocalLauncher(command or real)
    supervisor.policy = replace(supervisor.policy, startup_grace_ms=120_000, stale_limit_ms=60_000, waiting_alert_ms=1)
    settle_and_tell(supervisor, said)


def real(call: DriverCall) -> list[str]:
    return [sys.executable, str(DRIVER), *call.argv()]
