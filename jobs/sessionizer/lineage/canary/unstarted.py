"""A lineage or a spec that a command has put in force, and that no batch was made by since.

A driver counts the ends of drivers in its lineage's canary only if it comes so far. The supervisor judges a lineage
whose code or spec never started, because it sees every start from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.history.mark import Mark, MarkKind, add_mark
from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.control.records.supervision_records import HEALTH_FILE
from sessionizer.errors import SessionizerError
from sessionizer.lineage.active import read_lineage
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.lineage.canary.canary_record import canary_of_active, read_canary, write_canary
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms

if TYPE_CHECKING:
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, slots=True)
class UnstartedLineage:
    """The active ``lineage`` of ``stream`` without a batch since a command changed it.

    ``before``: the lineage that a rollback leads to. ``savepoint``: the one made before a change in place.
    ``rolls_back``: a user approved an automatic rollback with the command. ``starts``: failed starts after which it is
    due.
    """

    stream: str
    lineage: str
    before: str | None = None
    savepoint: str | None = None
    rolls_back: bool = False
    starts: int = CanaryTerms().drivers

    @property
    def way_back(self) -> str:
        """Say how a user returns to the state before. Empty if there is no way."""
        if self.before is not None:
            return f"run `sessionizer rollback {self.stream}` to return to lineage {self.before}"
        if self.savepoint is not None:
            return f"run `sessionizer restore {self.stream} {self.savepoint}` to return to the state before the change"
        return ""


def examine_unstarted(home: StreamHome) -> UnstartedLineage | None:
    """Return the active lineage if no batch was made since a command changed it. Never raises."""
    try:
        return _read_unstarted(home)
    except (SessionizerError, OSError):  # the driver's own end, or the next command, reports a damaged record
        return None


def _read_unstarted(home: StreamHome) -> UnstartedLineage | None:
    active = read_lineage(home)
    if active is None:
        return None
    if BatchLog(home.lineage(active.lineage).batches).has_batches:
        return _changed_in_place(home, active.lineage)
    if active.parent is None:
        return None
    canary = read_canary(home, active.lineage)
    if canary is None:
        return UnstartedLineage(home.name, active.lineage, active.before)
    before, is_open = canary.course.before, canary.outcome is None
    rolls_back = is_open and canary.terms.goes_back and before is not None
    return UnstartedLineage(home.name, active.lineage, before, rolls_back=rolls_back, starts=canary.terms.drivers)


def find_change_in_place(home: StreamHome, lineage: str) -> tuple[OperationRecord, str] | None:
    """Return the newest finished command if it changed ``lineage`` in place, and the savepoint that it made before.

    The id of the savepoint begins with the command's name.

    Raises DamagedFile, ControlUnreachable.
    """
    done = [each for each in read_operations(home) if each.outcome is Ending.DONE]
    newest = done[-1] if done else None
    if newest is None or not newest.lineage_from == newest.lineage_to == lineage:
        return None
    return newest, f"{newest.verb}-{newest.id}"


def _changed_in_place(home: StreamHome, lineage: str) -> UnstartedLineage | None:
    found = find_change_in_place(home, lineage)
    if found is None:
        return None
    change, savepoint = found
    health = HEALTH_FILE.of(home).read()
    if health is not None and health.worked_at > change.step_at:
        return None
    return UnstartedLineage(home.name, lineage, savepoint=savepoint)


def fail_unstarted(home: StreamHome, lineage: str, reason: str) -> None:
    """Fail the open canary of the active ``lineage``, so that the next driver rolls back. Idempotent.

    Raises DamagedFile, UnwritablePath, DiskFull, ControlUnreachable.
    """
    canary = canary_of_active(home)
    if canary is None or canary.lineage != lineage or canary.outcome is not None:
        return  # a user promoted or left it meanwhile
    write_canary(home, canary.decided(CanaryOutcome.FAILED, reason))
    add_mark(home, Mark(kind=MarkKind.CANARY, what=str(CanaryOutcome.FAILED), text=reason, lineage=lineage))
