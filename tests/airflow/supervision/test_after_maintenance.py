"""A job that had the stream for a while is no driver that was killed."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.operation import new_operation
from sessionizer.control.records.desired_state import DesiredState
from sessionizer.control.records.operation_record import OperationStage, read_operations, write_operation
from sessionizer_airflow.alerting.alert import AlertKind
from sessionizer_airflow.supervision.decide import Adopt, StandBy
from sessionizer_airflow.supervision.tell import subject
from sessionizer_airflow.supervision.watch import look_at
from support.expected.supervision_records import recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.alerting.alert import Alert
    from sessionizer_airflow.supervision.act import Supervisor

PATIENCE_S = 30.0
COMMAND = "restore-20261127T125959-7abb4e"


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


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
    deadline = time.monotonic() + PATIENCE_S
    while not isinstance(new_supervisor().settle(), Adopt):
        assert time.monotonic() < deadline, said
        time.sleep(0.05)
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
    assert "sessionizer restore clicks monday --approve" in alert.what_to_do
    assert "no process has" in said[-1]
    assert look_at(home, supervisor.policy).about == subject(decision)
