"""A plan that a user gave up between two tries of its task is not begun again by the next try."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.lease import acquire
from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending, OperationRecord, read_operations
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.errors import DriverStillRuns
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer_airflow.operating.results import find_abandoner
from support.verbs.asked_restore import PLAN, operation
from support.verbs.scripted_runner import ScriptedRunner

APPROVED = replace(PLAN, planned_at=5)
GIVEN_UP = replace(operation("one", PLAN.digest, Ending.ABANDONED, 6), abandoned_by="olga")


def test_the_user_who_gave_the_plan_up_is_found() -> None:
    assert find_abandoner([GIVEN_UP], APPROVED) == "olga"


@pytest.mark.parametrize(
    "record",
    [
        replace(GIVEN_UP, begun_at=4),
        replace(GIVEN_UP, digest="f" * 16),
        replace(GIVEN_UP, abandoned_by=None),
    ],
    ids=["before the plan", "another plan", "failed"],
)
def test_another_end_is_no_reason_to_leave_the_plan(record: OperationRecord) -> None:
    assert find_abandoner([record], APPROVED) is None


def begin(home: StreamHome, digest: str = PLAN.digest) -> OperationRecord:
    """Try to carry the plan out while a driver is at work that does not end in time."""
    home.prepare()
    acquire(home, "driver-1")
    record = new_operation(home, "restore", digest, "alice (Airflow)", (start_lineage(home), 7), savepoint="s1")
    runner = ScriptedRunner(home=home, work=lambda *_: pytest.fail("it began"))
    with pytest.raises(DriverStillRuns):
        carry_out(home, record, "restore to s1", 0.1, runner)
    return record


def abandon(home: StreamHome) -> str:
    return CliRunner().invoke(app, ["abandon", "clicks", "--by", "olga", "--home", str(home.platform)]).stdout


@pytest.mark.parametrize("later", [None, DesiredState.RUNNING, DesiredState.STOPPED])
@pytest.mark.parametrize("before", [None, DesiredState.STOPPED])
def test_a_command_that_was_given_up_before_its_first_step_stays_so_after_a_start_or_stop(
    home: StreamHome, later: DesiredState | None, before: DesiredState | None
) -> None:
    approved = replace(APPROVED, planned_at=begin(home).begun_at)
    if before is not None:
        write_desired(home, before, by="tom", why="the stop, then the end of the command")
    abandon(home)
    assert read_desired(home).state is (before or DesiredState.RUNNING)
    if later is not None:
        write_desired(home, later, by="tom", why="before Airflow's next try")
    assert find_abandoner(read_operations(home), approved) == "olga"
    assert find_abandoner(read_operations(home), replace(approved, digest="f" * 16)) is None
    assert find_abandoner(read_operations(home), replace(approved, planned_at=approved.planned_at + 1)) is None
    assert "nothing to abandon" in abandon(home)


def test_another_command_that_was_given_up_before_its_first_step_does_not_hold_the_plan(home: StreamHome) -> None:
    approved = replace(APPROVED, planned_at=begin(home, "f" * 16).begun_at)
    abandon(home)
    assert find_abandoner(read_operations(home), approved) is None
