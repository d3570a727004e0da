"""The commands by name, the preconditions of each operation, and the downtime that it is expected to take.

The preconditions are evaluated twice (docs/adr/0125). A command reads the stream, starts Spark and waits for a driver
to end. Minutes may pass, and another command or driver may change the stream meanwhile. So the same questions are asked
again under the lease, before the first write.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from sessionizer.control.records.operation_record import (
    Ending,
    OperationRecord,
    OperationStage,
    pending_operation,
    read_operations,
    require_not_abandoned,
)
from sessionizer.errors import DamagedFile, NothingToSave, OperationPastReturn, StreamBegun, StreamMovedOn
from sessionizer.home.roots import ControlPath, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.state.commands.command import Command
from sessionizer.state.commands.erasures import Erase
from sessionizer.state.commands.moves import Rescale, Switch
from sessionizer.state.commands.restores import Restore, Rollback
from sessionizer.state.commands.seeds import Seed
from sessionizer.state.commands.upgrades import Apply, Upgrade

COMMANDS: Final[dict[str, type[Command]]] = {
    each.name: each for each in (Restore, Rollback, Rescale, Switch, Apply, Upgrade, Seed, Erase)
}


def command_of(record: OperationRecord, file: ControlPath) -> Command:
    """Return the command that the ``record`` asks for. Raises DamagedFile if this release does not know it."""
    try:
        return COMMANDS[record.verb].from_json(record.request)
    except (KeyError, ValueError) as error:
        raise DamagedFile(uri_of(file), f"its request is unknown: {error}") from error


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
    is_open = not current.is_past_return and find_changed_lineage(home, current) is None
    if is_open and (active or "") != current.lineage_from:
        if current.never_ran and active is not None:
            raise StreamBegun(home.name, active)
        cause = f"it was made for lineage {current.lineage_from}, and the stream is in {active or 'none'}"
        moved = next((each for each in reversed(operations) if active and each.lineage_to == active), None)
        by = f", by the {moved.verb} {moved.id} of {moved.by}" if moved else ""
        raise StreamMovedOn(home.name, current.digest, f"{cause}{by}")
    return current


def require_startable(home: StreamHome, verb: str, savepoint: str = "", *, start_over: bool = False) -> None:
    """Refuse what control alone can refuse. Raises OperationPending, StreamBegun, NothingToSave, DamagedFile."""
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
    """Return the lineage that a killed try made active, or gave another spec. None: no try did."""
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


def _has_given_spec(home: StreamHome, record: OperationRecord) -> bool:
    """Whether the operation has already given its lineage another spec, the decisive step of a change in place.

    A driver may have written a spec since the approval, but none since ``saved`` was noted, because it had ended.
    """
    if not record.has_done(OperationStage.SAVED):
        return False
    kept = SPEC_FILE.of(home, record.lineage_from).require()
    return kept is not None and kept.since >= record.step_at


BASE_S: Final = 20.0
"""Guess for a stream with nothing open: Spark makes the lineage and reads it back."""
_SHORT_S: Final = 10.0
"""Guess for a command that makes no lineage meanwhile: it copies files or deletes rows."""
BYTES_PER_S: Final = 5_000_000
"""Guess for two cores that read, pack, write and compare the open events."""


@dataclass(frozen=True, slots=True)
class Downtime:
    """Expected downtime, from the end of the driver to the end of the command. ``basis``: of the number."""

    seconds: float
    basis: str

    def line(self) -> str:
        """Format the downtime for the reader of a plan."""
        return f"the stream is down for about {self.seconds:,.0f} s and the start of its next driver ({self.basis})"

    def to_json(self) -> dict[str, Any]:
        """Return the downtime for programs."""
        return {"seconds": round(self.seconds, 1), "basis": self.basis}


def downtime_of(home: StreamHome, verb: str, *, new_lineage: bool) -> Downtime | None:
    """Expect a downtime. ``new_lineage``: begun while the stream is stopped. None for a stream that never ran."""
    lineage = active_lineage(home)
    if lineage is None:
        return None
    held_bytes = BatchLog(home.lineage(lineage).batches).life.held_bytes
    return estimate_downtime(verb, read_operations(home), held_bytes, new_lineage=new_lineage)


def estimate_downtime(
    verb: str, operations: Sequence[OperationRecord], held_bytes: int, *, new_lineage: bool
) -> Downtime:
    """Take the newest command of this verb, or any, that was alike in ``new_lineage``, else guess by the bytes."""
    done = [each for each in operations if each.outcome is Ending.DONE and each.seconds]
    alike = [each for each in done if _started_lineage(each) is new_lineage]
    if alike:
        found = next((each for each in reversed(alike) if each.verb == verb), alike[-1])
        return Downtime(seconds_down(found), f"as long as the {found.verb} {found.id}")
    why = f"because no command{' like it' if done else ''} has run here yet"
    if not new_lineage:
        return Downtime(_SHORT_S, f"a guess, {why}")
    return Downtime(BASE_S + held_bytes / BYTES_PER_S, f"a guess from {held_bytes / 1e6:,.0f} MB of open events, {why}")


def _started_lineage(record: OperationRecord) -> bool:
    is_stopped = True
    with suppress(KeyError, ValueError):  # a command of another release
        command = COMMANDS[record.verb].from_json(record.request)
        is_stopped = not (command.prepares or isinstance(command, Rollback))
    return record.lineage_to != record.lineage_from and is_stopped


def seconds_down(record: OperationRecord) -> float:
    """Add up what the steps took after the driver had ended."""
    steps = (part.split() for part in record.seconds.split(", "))
    return sum(float(seconds) for step, seconds in steps if step != OperationStage.STOPPED)
