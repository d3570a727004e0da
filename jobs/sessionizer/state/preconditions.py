"""Preconditions of every operation on a stream's state, evaluated twice (docs/adr/0125).

A command reads the stream, starts Spark and waits for a driver to end. Minutes may pass, and another command or driver
may change the stream meanwhile. So the same questions are asked again under the lease, before the first write.
"""

from __future__ import annotations

from sessionizer.control.records.operation_record import (
    Ending,
    OperationRecord,
    OperationStage,
    pending_operation,
    read_operations,
    require_not_abandoned,
)
from sessionizer.errors import NothingToSave, OperationPastReturn, StreamBegun, StreamMovedOn
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.state.commands.registry import COMMANDS


def require_as_planned(home: StreamHome, record: OperationRecord) -> OperationRecord:
    """Read the operation of ``record`` anew. It is done if another process has carried it out meanwhile.

    Raises OperationPending if another one is pending, StreamBegun if the stream was to begin and has begun, and
    StreamMovedOn if the operation was abandoned or another lineage became the active one. Raises DamagedFile,
    ControlUnreachable.
    """
    operations = read_operations(home)
    found = next((each for each in operations if each.id == record.id), None)
    active = active_lineage(home)
    if found is not None and found.outcome is Ending.DONE:
        return found
    require_not_abandoned(home, found)
    twin = _find_completed_approval(operations, record, active)
    if found is None and twin is not None:
        return twin
    other = next((each for each in operations if each.outcome is None and each.id != record.id), None)
    if other is not None:
        raise other.pending_error()
    current = found or record
    if not current.is_past_return and find_changed_lineage(home, current) is None:
        _require_lineage(home, current, active, operations)
    return current


def require_startable(home: StreamHome, verb: str, savepoint: str = "", *, start_over: bool = False) -> None:
    """Refuse what control alone can refuse, before a plan is made. Opens no data.

    Raises OperationPending, StreamBegun for a seed that does not ``start_over``, NothingToSave for a stream that never
    ran, DamagedFile, ControlUnreachable.
    """
    pending = pending_operation(home)
    if pending is not None and (pending.verb, pending.savepoint) != (verb, savepoint):
        raise pending.pending_error()
    lineage = active_lineage(home)
    if pending is not None:
        return
    if COMMANDS[verb].begins_stream and lineage is not None and not start_over:
        raise StreamBegun(home.name, lineage)
    if not COMMANDS[verb].begins_stream and lineage is None:
        raise NothingToSave(home.name, "it never ran")


def require_abandonable(home: StreamHome, record: OperationRecord) -> None:
    """Raise OperationPastReturn if the operation has made its decisive change already. Raises DamagedFile."""
    changed = find_changed_lineage(home, record)
    if record.is_past_return or changed is not None:
        reached = OperationStage.ACTIVATED if changed else record.reached
        raise OperationPastReturn(home.name, record.verb, reached, record.command)


def find_changed_lineage(home: StreamHome, record: OperationRecord) -> str | None:
    """Return the lineage that a killed try of the operation made active, or gave another spec. None: no try did.

    Nothing else changes the active lineage, or its spec, once the operation has stopped the stream. Raises DamagedFile.
    """
    if record.lineage_to is None and not record.has_done(OperationStage.STOPPED):
        return None
    active = active_lineage(home)
    has_changed = active is not None and (active != record.lineage_from or _has_given_spec(home, record))
    return active if has_changed else None


def _find_completed_approval(
    operations: list[OperationRecord], record: OperationRecord, active: str | None
) -> OperationRecord | None:
    """Return the newest operation if another process completed the same approval while this one waited."""
    newest = operations[-1] if operations else None
    if newest is None or newest.outcome is not Ending.DONE or newest.lineage_to != active:
        return None
    is_same = (newest.verb, newest.digest, newest.savepoint) == (record.verb, record.digest, record.savepoint)
    # the lineage that a plan leaves is in its digest: only an apply in place may decide the same thing twice
    is_since = record.lineage_from != active or newest.step_at >= record.begun_at
    return newest if is_same and is_since else None


def _require_lineage(
    home: StreamHome, record: OperationRecord, active: str | None, operations: list[OperationRecord]
) -> None:
    if (active or "") == record.lineage_from:
        return
    if record.never_ran and active is not None:
        raise StreamBegun(home.name, active)
    cause = f"it was made for lineage {record.lineage_from}, and the stream is in {active or 'none'}"
    moved = next((each for each in reversed(operations) if active and each.lineage_to == active), None)
    by = f", by the {moved.verb} {moved.id} of {moved.by}" if moved else ""
    raise StreamMovedOn(home.name, record.digest, f"{cause}{by}")


def _has_given_spec(home: StreamHome, record: OperationRecord) -> bool:
    """Whether the operation has already given its lineage another spec, the decisive step of a change in place.

    A driver may have written a spec since the approval, but none since ``saved`` was noted, because it had ended.
    """
    if not record.has_done(OperationStage.SAVED):
        return False
    kept = SPEC_FILE.of(home, record.lineage_from).require()
    return kept is not None and kept.since >= record.step_at
