"""Keys of an object store, which go from an Airflow connection into the environment of drivers and jobs alone."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.installation import PYTHON_VARIABLE
from sessionizer_airflow.launching.argv import DriverCall
from sessionizer_airflow.launching.by_connection import ConnectionLauncher
from sessionizer_airflow.operators.batch_jobs import batch_job
from sessionizer_demo.local_airflow.api import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer_airflow.project import Project

# the provider leaves the pipe to the program that it has started open
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

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
    wait_until(place.exists, 60, "a started program")
    seen: dict[str, Any] = json.loads(place.read_text())
    assert {name: seen["environment"].get(name) for name in AIRFLOWS_OWN} == {
        "AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": KEY, "AWS_ENDPOINT_URL": "http://s3:7070",
    }  # fmt: skip
    assert KEY not in str(seen["argv"])


def test_a_driver_gets_the_keys_of_the_connection(project: Project, spark_submit: Path) -> None:
    home = StreamHome.of(project.home, "clicks")
    launch = ConnectionLauncher(project=project).launch(
        home, DriverCall(stream="clicks", uid="u1", folders=project.folders)
    )
    assert_given(spark_submit)
    assert KEY not in str(launch)


def test_a_job_gets_the_keys_of_the_connection(
    project: Project, spark_submit: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = batch_job(name="report", arguments=("report",), project=project, task_id="report")
    task.execute({})
    assert_given(spark_submit)
    rendered = {name: getattr(task, name) for name in task.template_fields}
    for place in (rendered, vars(task), caplog.text):
        assert KEY not in str(place)
