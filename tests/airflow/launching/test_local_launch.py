"""A driver that Airflow starts on its own machine: what the process really has, and who may read its log."""

from __future__ import annotations

import os
import signal
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.local_jvm import DRIVER_MEMORY
from sessionizer_airflow.launching.argv import DriverCall
from sessionizer_airflow.launching.local import LocalLauncher
from sessionizer_airflow.launching.spark_submit import job_environment
from sessionizer_airflow.project import Folders
from support.faults.spoiled_specs import KAFKA, changed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.control.records.process_records import LaunchRecord

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
