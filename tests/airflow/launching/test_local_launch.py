"""A driver that Airflow starts on its own machine: what the process really has, and who may read its log."""

import json
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sessionizer.control.records.process_records import LaunchRecord
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.driver_environment import DRIVER_MEMORY
from sessionizer.launch.installation import PYTHON_VARIABLE
from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.launching.local import LocalLauncher
from sessionizer_airflow.launching.spark_submit import DriverCall, job_environment
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob
from sessionizer_airflow.project import Folders, Project
from support.faults.bad_clicks import KAFKA, changed
from support.processes.ports import eventually

WAITS = [sys.executable, "-c", "import time; print('started', flush=True); time.sleep(600)"]
SECRETS = {
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://airflow:hunter2@db/airflow",
    "AIRFLOW__CORE__FERNET_KEY": "hunter2",
    "AIRFLOW_CONN_WAREHOUSE": "hunter2",
    "SESSIONIZER_NOTIFIER_ARGUMENTS": '{"token": "hunter2"}',
    "DATABASE_URL": "postgresql://somebody:hunter2@db/else",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
}


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchRecord]:
    for name, value in {**SECRETS, "VISITS_JAAS": "login", "AZURE_TENANT_ID": "tenant"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SESSIONIZER_DRIVER_ENVIRONMENT", "AZURE_*")
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    streams = tmp_path / "streams"
    streams.mkdir()
    source = KAFKA | {"options_from_environment": {"kafka.sasl.jaas.config": "VISITS_JAAS"}}
    (streams / "visits.yaml").write_text(yaml.safe_dump(changed({"source": source})))
    home = StreamHome.of(tmp_path / "home", "visits")
    call = DriverCall(stream="visits", uid="u1", folders=Folders(home=tmp_path / "home", streams=streams))
    launch = LocalLauncher(lambda _: WAITS).launch(home, call)
    assert launch.pid is not None
    yield launch
    os.killpg(launch.pid, signal.SIGKILL)


def environment_of(launch: LaunchRecord) -> dict[str, str]:
    pairs = Path(f"/proc/{launch.pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if pair)


def test_it_has_none_of_what_is_airflows(launched: LaunchRecord) -> None:
    found = environment_of(launched)
    assert not found.keys() & SECRETS.keys()
    assert "hunter2" not in "".join(found.values())
    assert not [name for name in found if "AIRFLOW" in name]


def test_it_has_what_its_spec_and_the_installation_name(launched: LaunchRecord) -> None:
    found = environment_of(launched)
    assert (found["VISITS_JAAS"], found["AZURE_TENANT_ID"]) == ("login", "tenant")
    assert {"PATH", "PYTHONPATH", "PYSPARK_PYTHON", "SESSIONIZER_DRIVER_LOG"} <= found.keys()


def test_it_has_a_limit_of_the_heap_unless_the_site_has_one(
    launched: LaunchRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert environment_of(launched)["SPARK_DRIVER_MEMORY"] == DRIVER_MEMORY["SPARK_DRIVER_MEMORY"]
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "6g")
    assert job_environment(os.environ)["SPARK_DRIVER_MEMORY"] == "6g"


def test_its_log_is_not_for_everybody(launched: LaunchRecord) -> None:
    assert stat.S_IMODE(Path(launched.log).stat().st_mode) == 0o640


# the provider leaves the pipe to the program that it has started open

KEY = "correct-horse-battery"
AIRFLOWS_OWN = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL")
PROGRAM = """#!{python}
import json, os, sys
seen = {{"argv": sys.argv, "environment": dict(os.environ)}}
open({place!r} + ".part", "w").write(json.dumps(seen))
os.rename({place!r} + ".part", {place!r})
"""


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, and where it leaves what it was started with."""
    place, program = tmp_path / "seen.json", tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable, place=str(place)))
    program.chmod(0o755)
    # the programs beside the drivers' Python are the first on a driver's PATH
    python = program.with_name("python")
    python.symlink_to(sys.executable)
    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    lake = {"conn_type": "aws", "login": "AK", "password": KEY, "extra": {"endpoint_url": "http://s3:7070"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))
    monkeypatch.setenv("SESSIONIZER_STORE_CONNECTION", "lake")
    for name in AIRFLOWS_OWN:
        monkeypatch.setenv(name, "of Airflow itself")
    return place


def assert_given(place: Path) -> None:
    eventually(place.exists, 60, "a started program")
    seen: dict[str, Any] = json.loads(place.read_text())
    assert {name: seen["environment"].get(name) for name in AIRFLOWS_OWN} == {
        "AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": KEY, "AWS_ENDPOINT_URL": "http://s3:7070",
    }  # fmt: skip
    assert KEY not in str(seen["argv"])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_driver_gets_the_keys_of_the_connection(project: Project, spark_submit: Path) -> None:
    home = StreamHome.of(project.home, "clicks")
    launch = ConnectionLauncher(project=project).launch(home, DriverCall(stream="clicks", uid="u1", folders=project))
    assert_given(spark_submit)
    assert KEY not in str(launch)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_job_gets_the_keys_of_the_connection(
    project: Project, spark_submit: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = SparkBatchJob(name="report", arguments=("report",), project=project, task_id="report")
    task.execute({})
    assert_given(spark_submit)
    rendered = {name: getattr(task, name) for name in task.template_fields}
    for place in (rendered, vars(task), caplog.text):
        assert KEY not in str(place)
