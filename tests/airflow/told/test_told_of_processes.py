"""From processes that die, hang or cannot be ended to the words of the notifier: real processes, no Spark."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sessionizer_airflow.launching import local
from sessionizer_airflow.supervision import decide
from support.expected.supervision_records import launched, works
from support.expected.told_causes import made
from support.faults.dead_mounts import mount_that_hangs
from support.processes.driver_commands import scripted_driver
from support.processes.found_process import known

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.launching.argv import DriverCall
    from support.processes.watched_stream import WatchedStream

IMPATIENT = {"startup_grace_ms": 3_000, "stale_limit_ms": 2_000}


def behind_another(call: DriverCall) -> list[str]:
    """As Python is behind the JVM of spark-submit."""
    return ["bash", "-c", '"$@" & wait', "-", *scripted_driver(call)]


def on_another_machine(call: DriverCall) -> list[str]:
    """As in a container: it has a host name of its own."""
    return ["unshare", "--uts", "bash", "-c", 'hostname worker-7; exec "$@"', "-", *scripted_driver(call)]


def send(number: signal.Signals) -> Callable[[StreamHome], None]:
    return lambda home: os.kill(known(launched(home).pid), number)


def nothing(_: StreamHome) -> None:
    """It does by itself what is asked for."""


@dataclass(frozen=True)
class Fate:
    """What `happens` to a driver once it works, if it comes to work; `cause` is what people are told."""

    cause: str
    names: str
    happens: Callable[[StreamHome], None] = nothing
    behaviour: str = "steady"
    command: Callable[[DriverCall], list[str]] = scripted_driver


FATES = {
    "killed": Fate("killed", "vanished", send(signal.SIGKILL)),
    "hung": Fate("hung", "silent for", send(signal.SIGSTOP)),
    "never comes to a batch": Fate("no_start", "no batch", behaviour="mute"),
    "its JVM is gone": Fate("half_gone", "its JVM is gone", send(signal.SIGKILL), command=behind_another),
    "does not leave": Fate("not_leaving", "nobody has foreseen", behaviour="linger"),
}

QUICK = {"killed", "hung", "does not leave"}
"""What runs in `make test`: tests/airflow/supervision makes the others as well."""


@made(*(fate.cause for fate in FATES.values()))
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in FATES]
)
def test_what_people_are_told_of_a_process(name: str, watched: WatchedStream, monkeypatch: pytest.MonkeyPatch) -> None:
    fate = FATES[name]
    monkeypatch.setattr(decide, "EXIT_GRACE_MS", 1_000)
    watched.platform.add("clicks")
    (watched.platform.home / "behaviour").write_text(fate.behaviour)
    watched.watch(fate.command, lambda: works(watched.home), patience=IMPATIENT)
    if not watched.told:
        fate.happens(watched.home)
        watched.watch(fate.command, patience=IMPATIENT)
    watched.check(fate.cause, names=fate.names)
    watched.check_status(fate.cause)


@pytest.mark.long
@made("out_of_sight")
def test_what_people_are_told_of_a_driver_whose_machine_is_gone(watched: WatchedStream) -> None:
    """It was started there by hand, or by a worker that is gone as well."""
    watched.platform.add("clicks")
    watched.watch(on_another_machine, lambda: works(watched.home))
    process = known(launched(watched.home).pid)
    (watched.home.control / "launch.json").unlink()
    os.kill(process, signal.SIGKILL)
    watched.watch(on_another_machine, patience={**IMPATIENT, "takeover_after_ms": 2_000})
    watched.check("out_of_sight", names="worker-7 cannot be seen from here")


@pytest.mark.long
@made("DriverOutOfReach")
def test_what_people_are_told_of_a_hung_driver_that_is_out_of_reach(watched: WatchedStream) -> None:
    """What was launched here is ended, and with it the driver, though that cannot be seen from here."""
    watched.platform.add("clicks")
    watched.watch(on_another_machine, lambda: works(watched.home))
    pid = launched(watched.home).pid
    send(signal.SIGSTOP)(watched.home)
    watched.watch(on_another_machine, patience=IMPATIENT)
    watched.check("DriverOutOfReach", names="worker-7", pid=pid, host="worker-7")
    watched.watch(scripted_driver)
    assert [alert["kind"] for alert in watched.told] == ["waiting", "recovered"]


@pytest.mark.long
@made("DriverWouldNotEnd")
def test_what_people_are_told_of_a_process_that_cannot_be_killed(
    watched: WatchedStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "DEATH_LIMIT_SECONDS", 1.0)
    watched.platform.add("clicks")
    (watched.platform.home / "behaviour").write_text(f"stat {tmp_path / 'mounted' / 'file'}")
    (tmp_path / "mounted").mkdir()
    with mount_that_hangs(tmp_path / "mounted"):
        watched.watch(scripted_driver, patience=IMPATIENT)
        watched.check("DriverWouldNotEnd", names=f"process {launched(watched.home).pid} is still there")
        (watched.platform.home / "behaviour").unlink()
    watched.watch(scripted_driver)
    assert [alert["kind"] for alert in watched.told] == ["waiting", "recovered"]
