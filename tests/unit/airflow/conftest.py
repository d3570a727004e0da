"""Supervisors over scripted drivers: real processes, real control files, no Spark."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.lease.ledger import read_lease
from sessionizer.control.records.launch_record import read_launch
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.launching.argv import DriverCall, Folders
from sessionizer_airflow.launching.local import LocalLauncher, kill
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from support.expected.heard import Heard
from support.places import SUPPORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sessionizer_airflow.alerting.alert import Alert

SCRIPTED_DRIVER = SUPPORT / "processes" / "scripted_driver.py"
IMPATIENT = SupervisionPolicy(
    startup_grace_ms=8_000,
    stale_limit_ms=4_000,
    first_backoff_ms=300,
    longest_backoff_ms=1_000,
    restart_budget=2,
    healthy_after_ms=60_000,
)


def scripted_command(call: DriverCall) -> list[str]:
    return [sys.executable, str(SCRIPTED_DRIVER), *call.argv()]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[StreamHome]:
    found = StreamHome.of(tmp_path, "clicks")
    yield found
    for record in (read_launch(found), read_lease(found)):
        if record is not None and record.process is not None:
            kill(record.process)


@pytest.fixture
def said() -> Heard:
    return Heard()


@pytest.fixture
def alerts() -> list[Alert]:
    return []


@pytest.fixture
def new_supervisor(home: StreamHome, tmp_path: Path, said: Heard, alerts: list[Alert]) -> Callable[[], Supervisor]:
    def build() -> Supervisor:
        return Supervisor(
            stream="clicks",
            home=home,
            folders=Folders(home=tmp_path, streams=tmp_path / "specs"),
            launcher=LocalLauncher(scripted_command),
            policy=IMPATIENT,
            say=said,
            tell=alerts.append,
        )

    return build


@pytest.fixture
def notified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the notifier that people configured leaves what it is told; read it with ``file_notifier.told``."""
    path = tmp_path / "told.jsonl"
    monkeypatch.setenv("SESSIONIZER_NOTIFIER", "support.processes.file_notifier.FileNotifier")
    monkeypatch.setenv("SESSIONIZER_NOTIFIER_ARGUMENTS", json.dumps({"path": str(path)}))
    return path
