"""The supervisor's launcher before a real standalone master: driver here, executors there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sessionizer.checkpoint.log_entries import PARTITIONS, read_planned_batch
from sessionizer.control.lease import read_lease
from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, is_alive, read_launch, request_stop
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.project import Folders, Project
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.decide import Adopt
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from support.expected.driver_statuses import Heard
from support.places import REPOSITORY, known
from support.processes.ports import eventually
from support.processes.standalone_spark import standalone_cluster

SPEC = """
name: clicks
owner: tests
source: {format: files, path: feed, encoding: json, columns: "k string, t timestamp, i string, last boolean"}
mapping: {key: k, event_time: t, event_id: i, closes: last}
trigger_interval: 1 second
key_groups: 2
"""
FRUGAL = """
spark.databricks.delta.snapshotPartitions 1
spark.executor.memory 512m
spark.driver.memory 768m
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.ui.enabled false
"""
PATIENT = SupervisionPolicy(startup_grace_ms=180_000)


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(FRUGAL)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with standalone_cluster(folder) as url:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": url}))
        yield url


@pytest.mark.long
@pytest.mark.usefixtures("master")
def test_driver_works_on_a_standalone_cluster(tmp_path: Path) -> None:
    project = Project(
        application=REPOSITORY / "jobs" / "main.py",
        streams=tmp_path / "streams",
        jars=REPOSITORY / ".jars" / "spark",
        home=tmp_path,
    )
    write_stream(project)
    home, said = StreamHome.of(tmp_path, "clicks"), Heard()
    supervisor = Supervisor(
        home=home,
        folders=Folders(home=tmp_path, streams=project.streams),
        launcher=ConnectionLauncher(project=project),
        policy=PATIENT,
        say=said,
    )
    try:
        decision = supervisor.settle()
        assert isinstance(decision, Adopt)
        eventually(lambda: has_landed(home, decision.uid), 150)
        rows = DeltaTable(str(home.table("sessions"))).to_pyarrow_table().to_pylist()
        assert [row["key"] for row in rows] == ["ann"]
        request_stop(home, decision.uid, "the test is over")
        eventually(lambda: EXIT_FILE.of(home, decision.uid).read(), 60)
        record = known(EXIT_FILE.of(home, decision.uid).read())
        assert record.outcome is ExitOutcome.STOPPED
        assert partitions_of_state(home) == "2", "not Spark's 200"
        assert list((tmp_path / "cluster" / "work").glob("app-*/0")), "its executors ran on the worker"
    finally:
        supervisor.launcher.end_by_force(supervisor.traces(supervisor_uid(home)))
    lease = known(read_lease(home))
    assert is_alive(known(lease.process)) is False


def partitions_of_state(home: StreamHome) -> str:
    lineage = known(active_lineage(home))
    return read_planned_batch(home.checkpoint(lineage), 0).settings[PARTITIONS]


def supervisor_uid(home: StreamHome) -> str:
    launch = known(read_launch(home))
    return launch.uid


def write_stream(project: Project) -> None:
    project.streams.mkdir()
    (project.streams / "clicks.yaml").write_text(SPEC)
    feed = project.home / "feed"
    feed.mkdir()
    events = [
        {"k": "ann", "t": f"2026-01-01T10:0{minute}:00Z", "i": f"e{minute}", "last": minute == 3} for minute in range(4)
    ]
    later = [{"k": "bob", "t": "2026-01-01T18:00:00Z", "i": "late", "last": False}]
    for name, rows in (("one", events), ("two", later)):
        (feed / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def has_landed(home: StreamHome, uid: str) -> bool:
    beat, ended = HEARTBEAT_FILE.of(home).read(), EXIT_FILE.of(home, uid).read()
    assert ended is None, ended
    return beat is not None and beat.uid == uid and bool(beat.sessions_rows)
