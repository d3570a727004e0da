"""From a real cause to the words of the notifier: what people are told is what the table of causes says.

The drivers are real, but for those that only have to die or hang: what is asked of a driver here happens before Spark.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.causes.table import CAUSES
from sessionizer.control.records.heartbeat import read_heartbeat
from sessionizer.control.records.launch_record import read_launch
from sessionizer_airflow.launching.local import LocalLauncher
from support.places import REPOSITORY, SUPPORT
from support.processes.fabricated_platform import Platform
from support.processes.file_notifier import settle_and_tell, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.launching.argv import DriverCall
    from sessionizer_airflow.supervision.act import Supervisor

REAL_DRIVER = [sys.executable, str(REPOSITORY / "jobs" / "main.py")]
SCRIPTED_DRIVER = [sys.executable, str(SUPPORT / "processes" / "scripted_driver.py")]
KAFKA_AWAY = """name: clicks
source:
  format: kafka
  bootstrap_servers: 127.0.0.1:1
  topic: clicks
  encoding: json
  columns: u string, ts bigint, id string
mapping:
  key: u
  event_time: timestamp_millis(ts)
  event_id: id
"""


@dataclass(frozen=True)
class Case:
    """Drivers started by `command` end for `cause`; what is told is of `kind`."""

    kind: str
    cause: str
    command: Callable[[DriverCall], list[str]]
    spec: str | None = None
    behaviour: str = "steady"
    freeze: bool = False
    startup_grace_ms: int = 8_000


def real(call: DriverCall) -> list[str]:
    return [*REAL_DRIVER, *call.argv()]


def scripted(call: DriverCall) -> list[str]:
    return [*SCRIPTED_DRIVER, *call.argv()]


def without_java(_: DriverCall) -> list[str]:
    return ["env", "JAVA_HOME=/nowhere/java", "spark-submit", "--master", "local[1]", "main.py"]


def without_application(_: DriverCall) -> list[str]:
    return ["spark-submit", "--master", "local[1]", "/nowhere/main.py"]


def without_jar(_: DriverCall) -> list[str]:
    return ["spark-submit", "--master", "local[1]", "--jars", "/nowhere/delta.jar", __file__]


CASES = {
    "bad spec": Case("gave_up", "InvalidSpec", real, spec="name: clicks\n"),
    "no spec": Case("gave_up", "UnknownStream", real),
    "broker away": Case("waiting", "SourceUnreachable", real, spec=KAFKA_AWAY),
    "no Java": Case("gave_up", "no_java", without_java),
    "refused": Case("gave_up", "TerminalError", scripted, behaviour="refuse"),
    "killed": Case("replaced", "killed", scripted, behaviour="crash"),
    "hung": Case("replaced", "hung", scripted, freeze=True),
    "never comes to a batch": Case("replaced", "no_start", scripted, behaviour="mute"),
}
SLOW = {
    "no application": Case("gave_up", "no_application", without_application, startup_grace_ms=60_000),
    "no jar": Case("gave_up", "no_jar", without_jar, startup_grace_ms=60_000),
}


@pytest.mark.parametrize("name", CASES)
def test_what_people_are_told(
    name: str, notified: Path, new_supervisor: Callable[[], Supervisor], home: StreamHome, said: Any
) -> None:
    check(CASES[name], notified, new_supervisor, home, said)


@pytest.mark.long
@pytest.mark.parametrize("name", SLOW)
def test_what_people_are_told_of_starts_that_take_a_jvm(
    name: str, notified: Path, new_supervisor: Callable[[], Supervisor], home: StreamHome, said: Any
) -> None:
    check(SLOW[name], notified, new_supervisor, home, said)


def check(case: Case, notified: Path, build: Callable[[], Supervisor], home: StreamHome, said: Any) -> None:
    home.prepare()
    platform = Platform(home.root.parents[1], home.root.parents[1] / "specs")
    platform.streams.mkdir()
    (platform.home / "behaviour").write_text(case.behaviour)
    if case.spec is not None:
        platform.add("clicks", case.spec)
    deadline = time.monotonic() + 90
    while not told(notified):
        assert time.monotonic() < deadline, said
        settle(case, build(), said)
        if case.freeze and not told(notified):
            freeze(home)
        time.sleep(0.1)
    (alert,) = told(notified)
    remedy = CAUSES[case.cause].remedy
    assert (alert["kind"], alert["stream"]) == (case.kind, "clicks")
    assert remedy in alert["what_to_do"]
    assert remedy in alert["text"]
    assert any(remedy in line for line in said), "the task log says it, too"
    if case.cause not in {"InvalidSpec", "UnknownStream"}:  # of these status tells by the file
        platform.add("clicks")
        assert remedy in platform.call("status", "clicks").stdout


def settle(case: Case, supervisor: Supervisor, said: Any) -> None:
    supervisor.launcher = LocalLauncher(case.command)
    supervisor.policy = replace(supervisor.policy, waiting_alert_ms=1, startup_grace_ms=case.startup_grace_ms)
    settle_and_tell(supervisor, said)


def freeze(home: StreamHome) -> None:
    launch, beat = read_launch(home), read_heartbeat(home)
    if launch is not None and launch.pid and beat is not None and beat.uid == launch.uid and beat.batch_id is not None:
        os.kill(launch.pid, signal.SIGSTOP)
