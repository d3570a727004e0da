"""Starts that fail for real, as the supervisor sees them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, write_exit
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.streams import view_home
from sessionizer.home.clock import epoch_ms
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.launching.local import LocalLauncher
from sessionizer_airflow.project import Folders
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from support.places import SUPPORT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessionizer.home.stream_home import StreamHome
    from support.expected.heard import Heard

LOGS = SUPPORT / "start_logs"


def test_supervisor_gives_up_on_a_missing_java_at_once(home: StreamHome, tmp_path: Path, said: Heard) -> None:
    """The real spark-submit, before the real absence of Java."""
    command = ["env", "JAVA_HOME=/nowhere/java", "spark-submit", "--master", "local[1]", "main.py"]
    with pytest.raises(SupervisionEnded, match="no Java at /nowhere/java/bin/java") as caught:
        _settle_until_the_end(_supervisor(home, tmp_path, said, lambda _: command))
    assert "install Java 17 or 21" in caught.value.remedy
    assert sum("launching" in line for line in said) == 1
    health = view_home(home).health
    assert (health.word, health.rule) == (HealthWord.DOWN, "given_up")


def test_exit_record_that_knows_better_is_believed(home: StreamHome, tmp_path: Path, said: Heard) -> None:
    log = (LOGS / "no_workers.log").as_posix()

    def command(call: object) -> list[str]:
        home.prepare()
        write_exit(home, ExitRecord(call.uid, epoch_ms() + 1, ExitOutcome.FAILED, True, "InvalidSpec", "gap is 'x'"))  # type: ignore[attr-defined]
        return ["cat", log]

    with pytest.raises(SupervisionEnded, match="InvalidSpec: gap is 'x'"):
        _settle_until_the_end(_supervisor(home, tmp_path, said, command))


def _supervisor(
    home: StreamHome, tmp_path: Path, said: Heard, command: Callable[..., list[str]]
) -> Callable[[], Supervisor]:
    return lambda: Supervisor(
        stream="clicks",
        home=home,
        folders=Folders(home=tmp_path, streams=tmp_path),
        launcher=LocalLauncher(command),
        policy=SupervisionPolicy(),
        say=said,
    )


def _settle_until_the_end(new_supervisor: Callable[[], Supervisor]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        new_supervisor().settle()
        time.sleep(0.1)
