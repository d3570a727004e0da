"""Expected downtime of a stream while a command has it, from what earlier commands took.

It counts from the end of the driver to the end of the command. The start of the next driver comes on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sessionizer.control.records.operation_record import Ending, OperationRecord, OperationStage, read_operations
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.state.commands.registry import COMMANDS
from sessionizer.state.commands.restores import Rollback

BASE_S: Final = 20.0
"""Guess for a stream with nothing open: Spark makes the lineage and reads it back."""
SHORT_S: Final = 10.0
"""Guess for a command that makes no lineage meanwhile: it copies files or deletes rows."""
BYTES_PER_S: Final = 5_000_000
"""Guess for two cores that read, pack, write and compare the open events."""


@dataclass(frozen=True, slots=True)
class Downtime:
    """Seconds that the stream is expected to be down. ``basis``: the source of the number."""

    seconds: float
    basis: str

    def line(self) -> str:
        """Format the downtime for the reader of a plan."""
        return f"the stream is down for about {self.seconds:,.0f} s and the start of its next driver ({self.basis})"

    def to_json(self) -> dict[str, Any]:
        """Return the downtime for programs."""
        return {"seconds": round(self.seconds, 1), "basis": self.basis}


def downtime_of(home: StreamHome, verb: str, *, new_lineage: bool) -> Downtime | None:
    """Expect a downtime of the stream for ``verb``. None for a stream that never ran. Raises DamagedFile.

    ``new_lineage``: whether the command starts one while the stream is stopped, which takes most of the time.
    """
    lineage = active_lineage(home)
    if lineage is None:
        return None
    held_bytes = BatchLog(home.lineage(lineage).batches).life.held_bytes
    return estimate_downtime(verb, read_operations(home), held_bytes, new_lineage=new_lineage)


def estimate_downtime(
    verb: str, operations: Sequence[OperationRecord], held_bytes: int, *, new_lineage: bool
) -> Downtime:
    """Take the newest command of the same verb, else of any verb, else guess by the bytes of open events. Pure.

    A command counts only if it started a new lineage in that time, too, or none either.
    """
    done = [each for each in operations if each.outcome is Ending.DONE and each.seconds]
    alike = [each for each in done if _started_lineage(each) is new_lineage]
    same = [each for each in alike if each.verb == verb]
    for found in (same, alike):
        if found:
            return Downtime(seconds_down(found[-1]), f"as long as the {found[-1].verb} {found[-1].id}")
    why = f"because no command{' like it' if done else ''} has run here yet"
    if not new_lineage:
        return Downtime(SHORT_S, f"a guess, {why}")
    return Downtime(BASE_S + held_bytes / BYTES_PER_S, f"a guess from {held_bytes / 1e6:,.0f} MB of open events, {why}")


def _started_lineage(record: OperationRecord) -> bool:
    try:
        command = COMMANDS[record.verb].from_json(record.request)
    except (KeyError, ValueError):  # a command of another release
        return record.lineage_to != record.lineage_from
    is_stopped = not (command.prepares or isinstance(command, Rollback))
    return record.lineage_to != record.lineage_from and is_stopped


def seconds_down(record: OperationRecord) -> float:
    """Add up what the steps took after the driver had ended."""
    steps = (part.split() for part in record.seconds.split(", "))
    return sum(float(seconds) for step, seconds in steps if step != OperationStage.STOPPED)
