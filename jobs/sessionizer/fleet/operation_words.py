"""Texts about an operation that is not over, or that failed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sessionizer.control.records.operation_record import Ending, OperationRecord
from sessionizer.control.status.unfinished_operation import abandon_command
from sessionizer.home.clock import DAY, clock_time
from sessionizer.lineage.canary.canary_record import BY_CANARY

TOLD_FOR_MS: Final = DAY
"""Ms for which ``status`` shows an abandoned operation."""


def stays_stopped(record: OperationRecord, *, has_begun: bool = True) -> list[str]:
    """Say how to continue or give up an operation that failed, and that stays pending or waits for the stream."""
    begun = f"stays stopped: its {record.verb} has reached {record.reached}"
    waits = f"stays stopped, or stops after its batch: its {record.verb} has not begun"
    lines = [f"stream {record.stream} {begun if has_begun else waits}", f"to resume: {record.command}"]
    return lines if record.is_past_return else [*lines, f"to give it up: {abandon_command(record.stream)}"]


def describe_abandoned(operations: Sequence[OperationRecord], now: int) -> str | None:
    """Describe the newest operation if it failed and was abandoned within the last day."""
    newest = operations[-1] if operations else None
    if newest is None or newest.outcome is not Ending.ABANDONED or newest.failure is None:
        return None
    if now - (newest.failed_at or 0) > TOLD_FOR_MS:
        return None
    to = f" to {newest.savepoint}" if newest.savepoint else ""
    failed_at = clock_time(newest.failed_at or newest.step_at)
    failed = f"failed at {failed_at} and was abandoned: {newest.failure}. The stream is unchanged"
    return f"{newest.verb}{to}, approved by {newest.by}, {failed}"


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
