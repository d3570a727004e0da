"""What keeps the supervisor itself from its work is told and waited for, like whatever ends a driver."""

import errno
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sessionizer.causes.cause import KILLED
from sessionizer.causes.table import CAUSES
from sessionizer.control import timeouts
from sessionizer.control.lease import read_lease
from sessionizer.control.maintenance import live_drivers
from sessionizer.control.records.process_records import LAUNCH_FILE, LaunchRecord, read_launch, this_process
from sessionizer.control.records.supervision_records import SUPERVISION_FILE, SupervisionRecord
from sessionizer.errors import ProgramMissing, UnwritablePath
from sessionizer.home.clock import epoch_ms
from sessionizer.home.record_file import RecordFile
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.decide import Adopt, Wait
from sessionizer_airflow.supervision.watch import look_at
from support.expected.driver_statuses import recorded, works
from support.fixtures.supervisor import behave, patient, set_limits
from support.places import known
from support.processes.fabricated_platform import Platform
from support.processes.ports import eventually

NewSupervisor = Callable[[], Supervisor]


class RefusedLauncher:
    """Nothing can be started, for `error`."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def launch(self, home: StreamHome, call: object) -> LaunchRecord:
        home.prepare()
        LAUNCH_FILE.of(home).write(LaunchRecord(uid=call.uid, at=int(time.time() * 1000), log="nowhere"))  # type: ignore[attr-defined]
        raise self.error


def status_of(home: StreamHome) -> str:
    streams = home.root.parents[1] / "specs"
    streams.mkdir(exist_ok=True)
    platform = Platform(home.root.parents[1], streams)
    platform.add(home.name)
    return platform.call("status", home.name).stdout


def test_a_start_that_is_refused_for_good_is_told(
    new_supervisor: NewSupervisor, home: StreamHome, alerts: list[Alert]
) -> None:
    supervisor = new_supervisor()
    supervisor.launcher = RefusedLauncher(ProgramMissing("spark-submit"))  # type: ignore[assignment]
    with pytest.raises(SupervisionEnded, match="spark-submit"):
        supervisor.settle()
    (alert,) = alerts
    assert alert.kind is AlertKind.GAVE_UP
    assert "install spark-submit" in alert.what_to_do
    assert "given up: ProgramMissing: spark-submit" in status_of(home)
    assert "install spark-submit" in status_of(home)
    new_supervisor().take_over()
    assert isinstance(new_supervisor().settle(), Adopt), "mended, it starts at once"


def test_a_full_disk_is_waited_for_even_where_nothing_can_be_recorded(
    new_supervisor: NewSupervisor, home: StreamHome, alerts: list[Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = RecordFile.write

    def full(file: RecordFile[Any], record: object) -> None:
        if file.kind is SupervisionRecord:
            raise UnwritablePath(str(file.path), "supervision.json", "[Errno 28] No space left on device")
        write(file, record)

    monkeypatch.setattr(RecordFile, "write", full)
    supervisor = impatient_to_tell(new_supervisor())
    healthy = supervisor.launcher
    supervisor.launcher = RefusedLauncher(OSError(errno.ENOSPC, "No space left on device"))  # type: ignore[assignment]
    attempts: set[int] = set()

    def wait_on() -> bool:
        wait = supervisor.settle()
        assert isinstance(wait, Wait)
        assert "free some space" in wait.why
        unwritten = supervisor.ledger.unwritten
        assert unwritten is not None
        attempts.add(unwritten.attempts)
        eventually(lambda: look_at(home, supervisor.policy, unwritten).call)
        return len(attempts) > 4

    eventually(wait_on)
    assert [alert.kind for alert in alerts] == [AlertKind.WAITING], "told once, and not given up"
    assert "a disk is full" in alerts[0].reason
    monkeypatch.undo()
    supervisor.launcher = healthy
    eventually(lambda: isinstance(supervisor.settle(), Adopt) and works(home))
    assert isinstance(supervisor.settle(), Adopt)
    assert [alert.kind for alert in alerts] == [AlertKind.WAITING, AlertKind.RECOVERED]


def impatient_to_tell(supervisor: Supervisor) -> Supervisor:
    """It tells of a wait when it has lasted for a second."""
    return set_limits(supervisor, waiting_alert_ms=1_000)


def test_a_source_that_is_away_outlasts_the_restart_budget(
    new_supervisor: NewSupervisor, home: StreamHome, alerts: list[Alert]
) -> None:
    """The budget of these supervisors is two restarts."""
    behave(home, "away")
    launched: set[str] = set()

    def step() -> bool:
        impatient_to_tell(new_supervisor()).settle()
        launch = read_launch(home)
        launched.add(launch.uid if launch else "")
        return len(launched) > 5 and [alert.kind for alert in alerts] == [AlertKind.WAITING]

    eventually(step)
    assert "does not answer" in alerts[0].reason
    assert CAUSES["SourceUnreachable"].remedy in alerts[0].what_to_do
    record = recorded(home)
    assert (record.failures, record.given_up) == (0, False)
    assert record.attempts > 4

    def backing_off() -> str:
        new_supervisor().settle()
        return status_of(home)

    eventually(lambda: "it waits: " in backing_off())
    assert recorded(home).cause == "SourceUnreachable"
    behave(home, "steady")
    eventually(lambda: new_supervisor().settle() and works(home))
    eventually(lambda: look_at(home, new_supervisor().policy).call or recorded(home).waiting_since is None)
    new_supervisor().settle()
    assert [alert.kind for alert in alerts] == [AlertKind.WAITING, AlertKind.RECOVERED]
    assert recorded(home).waiting_since is None


def test_back_off_then_giving_up_are_seen_by_status(new_supervisor: NewSupervisor, home: StreamHome) -> None:
    behave(home, "crash")
    eventually(lambda: isinstance(patient(new_supervisor()).settle(), Wait))
    shown = status_of(home)
    assert all(part in shown for part in ("backs off until ", "failure 1 in a row: ", KILLED.remedy))
    SUPERVISION_FILE.of(home).write(replace(recorded(home), restart_at=epoch_ms()))
    with pytest.raises(SupervisionEnded):
        eventually(lambda: new_supervisor().settle() is None)
    shown = status_of(home)
    assert all(part in shown for part in ("given up: driver ", "unpause the DAG clicks.supervise"))


def test_a_driver_whose_machine_is_gone_gets_a_successor_without_a_person(
    new_supervisor: NewSupervisor, home: StreamHome, alerts: list[Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a worker's container is made anew: its driver is gone, under a host name that nobody has any more."""
    monkeypatch.setenv("PRETENDED_HOST", "container-1")
    monkeypatch.setenv("SESSIONIZER_DRIVER_ENVIRONMENT", "PRETENDED_HOST")
    supervisor = new_supervisor()
    assert isinstance(supervisor.settle(), Adopt)
    eventually(lambda: works(home))
    launch, lease = read_launch(home), read_lease(home)
    assert launch is not None
    assert lease is not None
    monkeypatch.delenv("PRETENDED_HOST")
    LAUNCH_FILE.of(home).write(replace(launch, host="container-1"))
    os.kill(known(launch.pid), signal.SIGKILL)

    def successor() -> bool:
        patient = new_supervisor()
        patient.policy = replace(patient.policy, takeover_after_ms=6_000, startup_grace_ms=30_000)
        decision = patient.settle()
        newest = read_lease(home)
        if isinstance(decision, Wait) and newest is not None and newest.token == lease.token:
            assert newest.vacancy is None, "nothing is fenced that cannot be replaced yet"
        return newest is not None and newest.uid != lease.uid and newest.vacancy is None

    eventually(successor)
    assert [alert.kind for alert in alerts] == [AlertKind.REPLACED]
    assert "container-1 cannot be seen" in alerts[0].reason


def test_a_driver_without_its_lease_is_asked_to_stop_however_long_it_has_waited(home: StreamHome) -> None:
    """In the queue of a full cluster, say."""
    home.prepare()
    long_ago = int(time.time() * 1000) - 20 * timeouts.STARTUP_GRACE_MS
    queued = LaunchRecord(uid="queued", at=long_ago, log="x", master="yarn", submission="queued")
    LAUNCH_FILE.of(home).write(queued)
    assert live_drivers(home) == {"queued"}
    LAUNCH_FILE.of(home).write(replace(queued, ended_at=long_ago + 1))
    assert live_drivers(home) == set()
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="here", at=long_ago, log="x").add_process(this_process()))
    assert live_drivers(home) == {"here"}
    LAUNCH_FILE.of(home).write(
        LaunchRecord(uid="here", at=long_ago, log="x").add_process(replace(this_process(), started=1))
    )
    assert live_drivers(home) == set()


def test_stop_on_the_command_line_asks_it_too(home: StreamHome, tmp_path: Path) -> None:
    home.prepare()
    long_ago = int(time.time() * 1000) - 20 * timeouts.STARTUP_GRACE_MS
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="queued", at=long_ago, log="x", master="yarn", submission="queued"))
    streams = tmp_path / "specs"
    streams.mkdir()
    shown = Platform(tmp_path, streams).call("stop", "clicks", "--wait", "0").stdout
    assert "driver queued of clicks" in shown
    assert (home.control / "stop.queued").exists()
