"""A plan that a user gave up between two tries of its task is not begun again by the next try."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sessionizer.control.records.desired_state import BY_ABANDON, Desired, DesiredState
from sessionizer.control.records.operation_record import Ending
from sessionizer_airflow.operating.approval import Approved
from sessionizer_airflow.operating.earlier_tries import find_abandoner
from support.verbs.asked_restore import PLAN, operation

APPROVED = Approved(savepoint="s1", options="", digest=PLAN.digest, by="alice (Airflow)", planned_at=5)
RUNNING = Desired(DesiredState.RUNNING)
GIVEN_UP = replace(operation("one", PLAN.digest, Ending.ABANDONED, 6), abandoned_by="olga")


@pytest.mark.parametrize("is_retry", [False, True])
def test_the_user_who_gave_the_plan_up_is_found(is_retry: bool) -> None:
    assert find_abandoner([GIVEN_UP], RUNNING, APPROVED, is_retry=is_retry) == "olga"


@pytest.mark.parametrize(
    "record",
    [
        replace(GIVEN_UP, begun_at=4),
        replace(GIVEN_UP, digest="f" * 16),
        replace(GIVEN_UP, abandoned_by=None),
    ],
    ids=["before the plan", "another plan", "failed"],
)
def test_another_end_is_no_reason_to_leave_the_plan(record: object) -> None:
    assert find_abandoner([record], RUNNING, APPROVED, is_retry=True) is None  # type: ignore[list-item]


def test_a_command_without_a_record_was_given_up_as_well() -> None:
    ended = Desired(DesiredState.RUNNING, 6, "olga", BY_ABANDON)
    assert find_abandoner([], ended, APPROVED, is_retry=True) == "olga"
    assert find_abandoner([], ended, APPROVED, is_retry=False) is None, "it was another command"
    assert find_abandoner([], replace(ended, at=4), APPROVED, is_retry=True) is None
    assert find_abandoner([], replace(ended, why="a start"), APPROVED, is_retry=True) is None
