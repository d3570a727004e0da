"""What keeps the supervisor itself from its work is told and waited for, like whatever ends a driver."""

import errno
import multiprocessing
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
from sessionizer.control.maintenance import Maintenance, hold_lease, live_drivers
from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import OperationStage, read_operations
from sessionizer.control.records.process_records import (
    LAUNCH_FILE,
    ExitOutcome,
    ExitRecord,
    LaunchRecord,
    read_launch,
    this_process,
    write_exit,
)
from sessionizer.control.records.supervision_records import SUPERVISION_FILE, DesiredState, SupervisionRecord
from sessionizer.errors import ProgramMissing, UnwritablePath
from sessionizer.home.clock import epoch_ms
from sessionizer.home.record_file import RecordFile
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage, start_lineage
from sessionizer.lineage.canary.canary_record import begin_canary, read_canary
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from sessionizer_airflow.alerting import Alert, AlertKind
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.launching.local import LocalLauncher
from sessionizer_airflow.launching.spark_submit import DriverCall
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.decide import Adopt, StandBy, Wait
from sessionizer_airflow.supervision.tell import subject
from sessionizer_airflow.supervision.watch import look_at
from support.expected.driver_statuses import recorded, works
from support.fixtures.supervisor import behave, patient, scripted_command, set_limits
from support.places import SUPPORT, known
from support.processes.fabricated_platform import Platform
from support.processes.ports import eventually
from support.verbs.begun_restore import write_operation

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
        patient(new_supervisor()).settle()
        return status_of(home)

    eventually(lambda: "it waits: " in backing_off())
    assert recorded(home).cause == "SourceUnreachable"
    behave(home, "steady")
    SUPERVISION_FILE.of(home).write(replace(recorded(home), restart_at=epoch_ms()))
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
        patient.policy = replace(patient.policy, takeover_after_ms=6_000, stale_limit_ms=4_000)
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


LOGS = SUPPORT / "start_logs"


def driven_by(command: Callable[..., list[str]], new_supervisor: Callable[[], Supervisor]) -> Callable[[], Supervisor]:
    def build() -> Supervisor:
        supervisor = new_supervisor()
        supervisor.launcher = LocalLauncher(command)
        return supervisor

    return build


def test_exit_record_that_knows_better_is_believed(home: StreamHome, new_supervisor: Callable[[], Supervisor]) -> None:
    log = (LOGS / "no_workers.log").as_posix()

    def command(call: object) -> list[str]:
        home.prepare()
        write_exit(home, ExitRecord(call.uid, epoch_ms() + 1, ExitOutcome.FAILED, True, "InvalidSpec", "gap is 'x'"))  # type: ignore[attr-defined]
        return ["cat", log]

    with pytest.raises(SupervisionEnded, match="InvalidSpec: gap is 'x'"):
        settle_until(lambda: False, driven_by(command, new_supervisor))


COMMAND = "restore-20261127T125959-7abb4e"


def hold(home: StreamHome) -> None:
    with hold_lease(home, Maintenance(COMMAND, "alice", "restore", DesiredState.RUNNING), 10, print):
        pass


def test_the_stream_runs_again_and_nobody_is_told_of_a_failure(
    new_supervisor: Callable[[], Supervisor], home: StreamHome, alerts: list[Alert], said: list[str]
) -> None:
    home.prepare()
    new_supervisor().take_over()
    job = multiprocessing.get_context("fork").Process(target=hold, args=(home,))
    job.start()
    job.join()
    assert job.exitcode == 0
    eventually(lambda: isinstance(new_supervisor().settle(), Adopt), among=said)
    assert alerts == []
    assert (recorded(home).failures, recorded(home).last_failure) == (0, "")
    assert any(f"command {COMMAND} stopped" in line for line in said)


def hold_for_ever(home: StreamHome) -> None:
    with hold_lease(home, Maintenance(COMMAND, "alice", "restore", DesiredState.RUNNING), 10, print):
        record = new_operation(home, "restore", "13a24ec4dd774b6d", "alice", ("L1", 4), savepoint="monday")
        write_operation(home, replace(record, step=OperationStage.TAKEN_BACK))
        time.sleep(600)


def test_people_are_told_once_of_a_restore_that_was_killed_half_way(
    new_supervisor: Callable[[], Supervisor], home: StreamHome, alerts: list[Alert], said: list[str]
) -> None:
    """Stands for a run of `sessionizer.operate` that a user marks failed, because Airflow does not retry it."""
    home.prepare()
    job = multiprocessing.get_context("fork").Process(target=hold_for_ever, args=(home,))
    job.start()
    eventually(lambda: (home.control / "operations").is_dir() and read_operations(home))
    supervisor = new_supervisor()
    supervisor.policy = replace(supervisor.policy, stale_limit_ms=200, stale_alert_ms=400)
    settled = supervisor.settle()
    assert isinstance(settled, StandBy)
    assert settled.why.endswith("MAINTENANCE (by alice, restore)")
    known = look_at(home, supervisor.policy).about
    job.kill()
    job.join()
    eventually(lambda: look_at(home, supervisor.policy).about != known)
    supervisor.settle()
    decision = supervisor.settle()
    assert isinstance(decision, StandBy)
    assert decision.unattended
    (alert,) = alerts
    assert alert.kind is AlertKind.OPERATION_STUCK
    assert f"sessionizer carry-out clicks {read_operations(home)[-1].id}" in alert.what_to_do
    assert "no process has" in said[-1]
    assert look_at(home, supervisor.policy).about == subject(decision)


WITHIN_S = 180


def begin_new_lineage(home: StreamHome, *, goes_back: bool) -> tuple[str, str]:
    home.prepare()
    before = start_lineage(home)
    after = make_lineage(home, None)
    begin_canary(home, after, "upgrade", before, CanaryTerms(goes_back=goes_back))
    activate_lineage(home, after, before)
    return before, after


def settle_until(condition: Callable[[], object], build: Callable[[], Supervisor]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        build().settle()
        time.sleep(0.1)


@pytest.mark.parametrize(("behaviour", "starts"), [("refuse", 1), ("crash", 3)])
def test_a_lineage_that_never_makes_a_batch_is_left_once(
    home: StreamHome, new_supervisor: Callable[[], Supervisor], alerts: list[Alert], behaviour: str, starts: int
) -> None:
    before, after = begin_new_lineage(home, goes_back=True)
    (home.platform / "behaviour").write_text(behaviour)

    def command(call: DriverCall) -> list[str]:
        """The code of the lineage before does not fail."""
        canary = read_canary(home, after)
        if canary is not None and canary.outcome is CanaryOutcome.FAILED:
            (home.platform / "behaviour").write_text("steady")
        return scripted_command(call)

    settle_until(lambda: works(home), driven_by(command, new_supervisor))
    canary = read_canary(home, after)
    assert canary is not None
    assert (canary.outcome, canary.goes_back, canary.before) == (CanaryOutcome.FAILED, True, before)
    assert [alert.kind for alert in alerts].count(AlertKind.ROLLED_BACK) == 1
    assert [alert.kind for alert in alerts][: starts - 1] == [AlertKind.REPLACED] * (starts - 1)
    assert not recorded(home).given_up


def test_without_the_switch_the_alert_names_the_way_back(
    home: StreamHome, new_supervisor: Callable[[], Supervisor], alerts: list[Alert]
) -> None:
    before, after = begin_new_lineage(home, goes_back=False)
    (home.platform / "behaviour").write_text("refuse")
    with pytest.raises(SupervisionEnded):
        settle_until(lambda: False, new_supervisor)
    (alert,) = alerts
    assert alert.kind is AlertKind.GAVE_UP
    assert all(part in alert.what_to_do for part in ("`sessionizer rollback clicks`", before))
    canary = read_canary(home, after)
    assert canary is not None
    assert canary.outcome is None
