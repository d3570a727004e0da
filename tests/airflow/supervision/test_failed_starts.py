"""Starts that fail for real, as the supervisor sees them."""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import OperationStage, read_operations
from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, write_exit
from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage, start_lineage
from sessionizer.lineage.canary.canary_record import begin_canary, read_canary
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.launching.local import LocalLauncher
from sessionizer_airflow.launching.spark_submit import DriverCall
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.decide import Adopt, StandBy
from sessionizer_airflow.supervision.tell import subject
from sessionizer_airflow.supervision.watch import look_at
from support.expected.driver_statuses import recorded, works
from support.fixtures.supervisor import scripted_command
from support.places import SUPPORT
from support.processes.ports import eventually
from support.verbs.begun_restore import write_operation

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


WITHIN_S = 60


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
