"""Texts about an operation that is not over, or that failed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.control.records.operation_record import Ending
from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.control.status.unfinished_operation import abandon_command
from sessionizer.home.clock import DAY, clock_time
from sessionizer.lineage.canary.canary_record import BY_CANARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.control.records.supervision_records import Desired

TOLD_FOR_MS: Final = DAY
"""Ms for which ``status`` shows an abandoned operation."""


def stays_stopped(pending: OperationRecord) -> list[str]:
    """Say how to continue or give up a failed operation that stays pending."""
    lines = [
        f"stream {pending.stream} stays stopped: its {pending.verb} has reached {pending.reached}",
        f"to resume: {pending.command}",
    ]
    if not pending.is_past_return:
        lines.append(f"to give it up: {abandon_command(pending.stream)}")
    return lines


def stays_in_maintenance(record: OperationRecord) -> list[str]:
    """Say how to continue or give up a command that failed before it had the stream."""
    return [
        f"stream {record.stream} stays stopped, or stops after its batch: its {record.verb} has not begun",
        f"to resume: {record.command}",
        f"to give it up: {abandon_command(record.stream)}",
    ]


def waits_for_another(record: OperationRecord) -> list[str]:
    """Say that another command has the stream, or waits for it, and that the failed one changed nothing."""
    stream = record.stream
    return [f"another command has stream {stream}, or waits for it: `sessionizer status {stream}` names it"]


def goes_on_as_it_was(record: OperationRecord, desired: Desired) -> list[str]:
    """Say that a failed command changed nothing."""
    if desired.state is DesiredState.STOPPED and record.never_ran:
        return [f"stream {record.stream} is unchanged, and stays stopped because it never ran"]
    return [f"stream {record.stream} is unchanged, and its desired state is {desired.state}"]


def describe_abandoned(operations: Sequence[OperationRecord], now: int) -> str | None:
    """Describe the newest operation if it failed and was abandoned within the last day."""
    newest = operations[-1] if operations else None
    if newest is None or newest.outcome is not Ending.ABANDONED or newest.failure is None:
        return None
    if now - (newest.failed_at or 0) > TOLD_FOR_MS:
        return None
    return (
        f"{_name_operation(newest)}, approved by {newest.by}, failed at {_failure_time(newest)} and was abandoned: "
        f"{newest.failure}. The stream is unchanged"
    )


def describe_automatic_rollback(operations: Sequence[OperationRecord], reason: str | None, now: int) -> str | None:
    """Describe the newest operation if it was an automatic rollback within the last day.

    ``reason``: why the lineage that was left had failed.
    """
    newest = operations[-1] if operations else None
    if newest is None or not newest.by.startswith(BY_CANARY) or newest.outcome is not Ending.DONE:
        return None
    if now - newest.step_at > TOLD_FOR_MS:
        return None
    left, back = f"lineage {newest.lineage_from} failed: {reason}", f"the stream is back in lineage {newest.lineage_to}"
    return f"{left}. Since {clock_time(newest.step_at)} {back}"


def _name_operation(record: OperationRecord) -> str:
    return f"{record.verb} to {record.savepoint}" if record.savepoint else record.verb


def _failure_time(record: OperationRecord) -> str:
    return clock_time(record.failed_at or record.step_at)
