"""The record of a restore that somebody has approved, and that has done nothing yet."""

from __future__ import annotations

from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.home.clock import epoch_ms


def begun_restore(operation: str = "20261123T080000-abc123", *, savepoint: str = "nightly") -> OperationRecord:
    """Of the stream ``clicks``, which is to run afterwards, back to ``savepoint``."""
    now = epoch_ms()
    return OperationRecord(
        id=operation,
        verb="restore",
        stream="clicks",
        by="alice",
        digest="0123456789abcdef",
        savepoint=savepoint,
        lineage_from="20261121T080000-abc123",
        batch_from=60,
        wanted=DesiredState.RUNNING,
        begun_at=now,
        step_at=now,
    )
