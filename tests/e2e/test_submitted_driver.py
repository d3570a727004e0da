"""A real driver as the supervisor launches it, through spark-submit: its log stays short, its Spark UI is known."""

import json
import urllib.request
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, LaunchRecord, request_stop
from sessionizer.home.local_files import LIMIT_BYTES, BoundedLog
from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.launching.local import kill
from sessionizer_airflow.launching.spark_submit import DriverCall
from sessionizer_airflow.project import Folders, Project
from support.expected.driver_statuses import works
from support.places import known
from support.processes.ports import command_of, eventually
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

OLD = b"what it printed in the months before\n"


@pytest.mark.long
def test_a_driver_cuts_its_log_and_tells_where_its_spark_ui_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_this_machine(monkeypatch)
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=4))
    write_click_files(stage.feed, 4)
    home = stage.stream_home
    home.prepare()
    log = home.logs / "driver.0123ab.log"
    log.write_bytes(OLD * (LIMIT_BYTES // len(OLD) + 1))
    launch = launched(stage)
    try:
        eventually(lambda: works(home, "0123ab"))
        beat = known(HEARTBEAT_FILE.of(home).read())
        assert log.stat().st_size < LIMIT_BYTES
        assert BoundedLog(log).parts()[0].read_bytes().startswith(OLD)
        assert daemons_of(launch) == {"pyspark.daemon"}, "and all its workers are forked by that"
        with urllib.request.urlopen(known(beat.spark_ui), timeout=20) as page:  # noqa: S310 - our own loopback address
            assert page.status == 200
        request_stop(home, "0123ab", "test")
        eventually(lambda: EXIT_FILE.of(home, "0123ab").read() is not None)
        assert "stop requested" in log.read_text(), "it goes on printing into the same file"
        assert known(EXIT_FILE.of(home, "0123ab").read()).outcome is ExitOutcome.STOPPED
    finally:
        kill(known(launch.process))


@pytest.mark.long
def test_a_driver_without_memory_says_so_though_its_jvm_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_this_machine(monkeypatch)
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "512m")
    spec = clicks_spec()
    spec["mapping"]["payload"] = {"page": "repeat(left(page, 1), 1500000000)"}
    stage = Stage.set_up(tmp_path, spec)
    write_click_files(stage.feed, 1)
    launch = launched(stage)
    try:
        eventually(lambda: EXIT_FILE.of(stage.stream_home, "0123ab").read() is not None)
        ended = known(EXIT_FILE.of(stage.stream_home, "0123ab").read())
        assert (ended.outcome, ended.error_type, ended.terminal) == (ExitOutcome.FAILED, "memory", False), ended.message
        assert "java.lang.OutOfMemoryError" in (ended.message or "")
    finally:
        kill(known(launch.process))


def on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")


def launched(stage: Stage) -> LaunchRecord:
    project = Project.from_environment({"SESSIONIZER_STREAMS": str(stage.streams), "SESSIONIZER_HOME": str(stage.home)})
    call = DriverCall(stream=stage.name, uid="0123ab", folders=Folders(home=stage.home, streams=stage.streams))
    return ConnectionLauncher(project=project).launch(stage.stream_home, call)


def daemons_of(launch: LaunchRecord) -> set[str]:
    """The modules by which the JVM's Python processes run, forked workers included; the driver itself runs a file."""
    commands = [command_of(child) for child in psutil.Process(launch.pid).children(recursive=True)]
    return {command[2] for command in commands if command[1:2] == ["-m"]}
