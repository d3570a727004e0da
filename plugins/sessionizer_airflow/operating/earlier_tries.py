"""Fate of an approved plan in earlier tries of its task: done, or given up by a user. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.control.records.operation_record import Ending

if TYPE_CHECKING:
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer_airflow.operating.approval import Approved

ABANDONED: Final = (
    "do nothing, because the stream is as it was before. To carry it out after all, run this DAG again, which makes a "
    "new plan"
)


def operation_of(operations: list[OperationRecord], approved: Approved) -> OperationRecord | None:
    """Return the newest of the stream's ``operations`` that carried out the approved plan.

    An operation that was over before the plan was made belongs to another plan. After a rollback, a new plan of the
    same operation has the same digest.
    """
    done = [
        each
        for each in operations
        if each.digest == approved.digest and each.outcome is Ending.DONE and each.step_at >= approved.planned_at
    ]
    return max(done, key=lambda each: each.step_at, default=None)


def find_abandoner(operations: list[OperationRecord], approved: Approved) -> str | None:
    """Return the user who gave the approved plan up, None if no user did."""
    for each in reversed(operations):
        if each.digest == approved.digest and each.abandoned_by and each.begun_at >= approved.planned_at:
            return each.abandoned_by
    return None
