"""``operations/<id>.json``: one record of each verb that changes the state of a stream, from approval to outcome.

While one is not over no driver starts: it might go on from a lineage of whose rows some are deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from sessionizer.control.records.desired_state import DesiredState  # noqa: TC001  the type of a field, read with it
from sessionizer.errors import OperationPending
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import record_names, unreachable
from sessionizer.home.json_file import have_folder, require_undamaged, write_record
from sessionizer.home.json_record import JsonRecord
from sessionizer.redaction import redacted

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


class Reached(StrEnum):
    """How far an operation has come: what is named has been done."""

    APPROVED = "approved"
    STOPPED = "stopped"
    SAVED = "saved"
    """What was open before is in a savepoint."""
    TAKEN = "taken"
    """Of a seed: its history has been read, and what it came to is kept."""
    SEEDED = "seeded"
    TAKEN_BACK = "taken_back"
    ACTIVATED = "activated"


POINT_OF_NO_RETURN: Final = {"restore": Reached.SEEDED, "rollback": Reached.SEEDED, "seed": Reached.SEEDED}
"""By verb: the last stage before the tables change. The other verbs change nothing that counts before their end."""


class Ending(StrEnum):
    """How an operation ended."""

    DONE = "done"
    ABANDONED = "abandoned"
    """Before it changed anything that counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationRecord(JsonRecord):
    """A ``verb`` that somebody approved (``by``, the plan's ``digest``), at ``begun_at`` (epoch ms).

    ``seconds``: what the steps took so far, as ``stopped 1.2, seeded 8.4``. ``lineage_to`` is the lineage that it
    makes, None before it has one; ``counts``: rows that leave each table, and the ``days`` (ISO) of which; ``wanted``:
    what people want of the stream afterwards; ``options``: what else the command was given, as typed. ``failure``: what
    the last try failed of, at ``failed_at`` (epoch ms), as ``LeaseHeld: stream …``.
    """

    id: str
    verb: str
    stream: str
    by: str
    digest: str
    savepoint: str
    lineage_from: str
    batch_from: int
    wanted: DesiredState
    begun_at: int
    step: Reached = Reached.APPROVED
    step_at: int
    lineage_to: str | None = None
    seconds: str = ""
    counts: str = ""
    days: str = ""
    options: str = ""
    outcome: Ending | None = None
    failure: str | None = None
    failed_at: int | None = None

    @property
    def command(self) -> str:
        """Compose the command that goes on with it."""
        given = " ".join(filter(None, (self.stream, self.savepoint, self.options)))
        return f"sessionizer {self.verb} {given} --approve {self.digest}"

    @property
    def is_past_return(self) -> bool:
        """Whether it has come so far that it can only go on to its end."""
        return self.has_done(POINT_OF_NO_RETURN.get(self.verb, Reached.ACTIVATED))

    @property
    def never_ran(self) -> bool:
        """Whether the stream had no lineage when the operation was approved."""
        return not self.lineage_from

    def failed(self, error: Exception) -> Self:
        """The record once a try has failed of ``error``, now."""
        message = redacted(str(error)).strip() or "no message"
        return replace(self, failure=f"{type(error).__name__}: {message.splitlines()[0]}", failed_at=epoch_ms())

    def after(self, step: Reached, *, lineage_to: str | None = None) -> Self:
        """The record once ``step`` has been done, now."""
        now = epoch_ms()
        took = f"{step} {(now - self.step_at) / 1000:.1f}"
        seconds = f"{self.seconds}, {took}" if self.seconds else took
        return replace(self, step=step, step_at=now, seconds=seconds, lineage_to=lineage_to or self.lineage_to)

    def has_done(self, step: Reached) -> bool:
        """Whether it has come so far."""
        steps = list(Reached)
        return steps.index(self.step) >= steps.index(step)


def write_operation(home: StreamHome, record: OperationRecord) -> None:
    """Raises UnwritablePath, DiskFull."""
    have_folder(home.control_files.operations, "the record of an operation")
    write_record(home.control_files.operation(record.id), record)


def read_operations(home: StreamHome) -> list[OperationRecord]:
    """All of them, the oldest first. Raises DamagedFile, ControlUnreachable."""
    folder = home.control_files.operations
    try:
        names = record_names(folder, "[!.]*.json")
    except OSError as error:
        raise unreachable(folder, error) from error
    found = (require_undamaged(OperationRecord, folder / name) for name in names)
    return [record for record in found if record is not None]


def pending_operation(home: StreamHome) -> OperationRecord | None:
    """The one that is not over. Raises as ``read_operations``."""
    return next((record for record in read_operations(home) if record.outcome is None), None)


def require_no_operation(home: StreamHome) -> None:
    """Raises OperationPending while one is not over, and as ``read_operations``."""
    pending = pending_operation(home)
    if pending is not None:
        raise OperationPending(home.name, pending.verb, pending.savepoint, pending.step)
