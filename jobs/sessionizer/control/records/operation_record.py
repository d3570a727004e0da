"""The record of an operation on a stream's state: the request, its plan, the approval, and the steps to the outcome.

``requests/<id>.json``: an operation before its first step. It blocks nothing, and several may wait.
``plans/<id>.json``: its first plan, which nothing replaces, so a user approves what was shown. The request outlives a
start or a stop of the stream, so that a user can give the command up all the same.

``operations/<id>.json``: the same record from its first step on. The command that begins creates it, or the user who
gives it up: exactly one of the two. While it is not over no driver starts, because it might continue from a lineage
some of whose rows are deleted.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self

from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.errors import (
    ControlUnreachable,
    DamagedFile,
    DiskFull,
    OperationPending,
    StreamMovedOn,
    UnwritablePath,
)
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import reaching_records, record_names
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile, Record, RecordFile, have_folder
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.redaction import redact


class OperationStage(StrEnum):
    """The last stage that an operation has completed."""

    REQUESTED = "requested"
    PLANNED = "planned"
    APPROVED = "approved"
    STOPPED = "stopped"
    SAVED = "saved"
    """The open events from before are in a savepoint."""
    TAKEN = "taken"
    """A history has been read, and the results are kept."""
    SEEDED = "seeded"
    """From here on the operation can only be completed. It is noted before the first step that cannot be reversed."""
    TAKEN_BACK = "taken_back"
    """Rows of the tables have changed."""
    ACTIVATED = "activated"


IN_AIRFLOW: Final = " (Airflow)"
"""End of the name of a user, or of a policy, that approved an operation in Airflow. Its run has a task to clear."""


class Ending(StrEnum):
    """The outcome of an operation."""

    DONE = "done"
    ABANDONED = "abandoned"
    """The operation ended before it changed anything that counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationRecord(JsonRecord):
    """A ``verb`` with the ``request`` of its command, as JSON.

    Of its plan: the ``digest``, the ``text`` in lines for people, whether it was ``possible``, and ``planned_at``
    (epoch ms), 0 if a command was approved as it was typed. ``decided`` has the fields that the digest covers.
    ``differences``: those that the text names, as JSON of ``deployment.differences``.
    ``savepoint``: the one that it uses, if any. A user approved it (``by``) at ``begun_at`` (epoch ms), before that the
    time of the request. ``asked_at``: when it asked for the stream, for which it waits. None: no try waits.

    ``seconds`` is the duration of the steps so far, such as ``stopped 1.2, seeded 8.4``. ``lineage_to`` is the lineage
    that it has made active, or given the spec, None before that. ``counts`` is the number of rows that leave each
    table, ``days`` (ISO) the days of these rows. ``wanted`` is the desired state of the stream afterwards.
    ``failure`` is the failure of the last try, at ``failed_at`` (epoch ms), such as ``LeaseHeld: stream …``.
    ``abandoned_by`` is the user who gave it up, None if it failed. ``tables`` is the newest version of each table
    before a restore changes rows, by its location. ``spec`` is the approved file of a restore that goes on by it.
    """

    id: str
    verb: str
    stream: str
    request: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""
    digest: str = ""
    text: str = ""
    possible: bool = True
    planned_at: Moment = 0
    decided: Mapping[str, Any] = field(default_factory=dict)
    differences: tuple[Mapping[str, Any], ...] = ()
    savepoint: str = ""
    lineage_from: str = ""
    batch_from: int = -1
    wanted: DesiredState = DesiredState.RUNNING
    begun_at: Moment
    asked_at: Moment | None = None
    step: OperationStage = OperationStage.APPROVED
    step_at: Moment
    lineage_to: str | None = None
    seconds: str = ""
    counts: str = ""
    days: str = ""
    outcome: Ending | None = None
    failure: str | None = None
    failed_at: Moment | None = None
    abandoned_by: str | None = None
    tables: Mapping[str, int] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command that resumes it."""
        return f"sessionizer carry-out {self.stream} {self.id}"

    @property
    def is_past_return(self) -> bool:
        """Whether it is so far that it can only be completed."""
        return self.lineage_to is not None or self.has_done(OperationStage.SEEDED)

    @property
    def reached(self) -> OperationStage:
        """The stage that it has reached. Steps may be left after the activation."""
        return self.step if self.lineage_to is None else OperationStage.ACTIVATED

    @property
    def never_ran(self) -> bool:
        """Whether the stream had no lineage when the operation was approved."""
        return not self.lineage_from

    def pending_error(self) -> OperationPending:
        """Return the error that says that it is not over."""
        past = self.is_past_return
        return OperationPending(self.stream, self.verb, self.savepoint, self.reached, is_past_return=past)

    def failed(self, error: Exception) -> Self:
        """Return the record after a try that has failed with ``error``, now."""
        message = redact(str(error)).strip() or "no message"
        return replace(self, failure=f"{type(error).__name__}: {message.splitlines()[0]}", failed_at=epoch_ms())

    def record_step(self, step: OperationStage, *, since: int = 0, lineage_to: str | None = None) -> Self:
        """Return the record after ``step``. Its seconds run from the step before, if of the same try."""
        now = epoch_ms()
        took = f"{step} {(now - max(self.step_at, since)) / 1000:.1f}"
        seconds = f"{self.seconds}, {took}" if self.seconds else took
        return replace(self, step=step, step_at=now, seconds=seconds, lineage_to=lineage_to or self.lineage_to)

    def has_done(self, step: OperationStage) -> bool:
        """Whether it has completed ``step``."""
        return (steps := list(OperationStage)).index(self.step) >= steps.index(step)


OPERATION_FILE: Final = ControlFile("operations/{}.json", OperationRecord, key="operation")
REQUEST_FILE: Final = ControlFile("requests/{}.json", OperationRecord, key="operation")
PLAN_FILE: Final = ControlFile("plans/{}.json", OperationRecord, key="operation")


def read_operations(home: StreamHome) -> list[OperationRecord]:
    """Read all operations that have begun or are over, the oldest first. Raises DamagedFile, ControlUnreachable."""
    return sorted(read_all(home, OPERATION_FILE), key=lambda each: (each.begun_at, each.id))


def operation_ids(home: StreamHome) -> frozenset[str]:
    """Return the ids of all operations that have begun or are over. Raises ControlUnreachable."""
    folder = OPERATION_FILE.folder(home)
    with reaching_records(folder):
        return frozenset(name.removesuffix(".json") for name in record_names(folder, "[!.]*.json"))


def read_requests(home: StreamHome) -> list[OperationRecord]:
    """Read all operations as they were before their first step. Raises DamagedFile, ControlUnreachable."""
    return sorted(read_all(home, REQUEST_FILE), key=lambda each: (each.begun_at, each.id))


def require_request(
    home: StreamHome, operation: str, kept: ControlFile[OperationRecord] = REQUEST_FILE
) -> OperationRecord:
    """Return the request or plan. Raises DamagedFile also if it is absent, ControlUnreachable, InvalidSpec."""
    file = kept.of(home, operation)
    record = file.require()
    if record is None:
        raise DamagedFile(uri_of(file.path), "it is gone")
    return record


def write_request(home: StreamHome, record: OperationRecord) -> None:
    """Write the operation, which has not begun. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    have_folder(REQUEST_FILE.folder(home), "the request of an operation")
    REQUEST_FILE.of(home, record.id).write(record)


def keep_plan(home: StreamHome, planned: OperationRecord) -> OperationRecord:
    """Keep the first plan of a request, which a lost job's later plan must not replace.

    Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    have_folder(PLAN_FILE.folder(home), "the plan of an operation")
    PLAN_FILE.of(home, planned.id).create(planned)
    first = require_request(home, planned.id, PLAN_FILE)
    write_request(home, first)
    return first


def pending_operation(home: StreamHome) -> OperationRecord | None:
    """Return the operation that is not over. Raises DamagedFile, ControlUnreachable."""
    return next((record for record in read_operations(home) if record.outcome is None), None)


def require_no_operation(home: StreamHome, own: str = "") -> None:
    """Raise OperationPending while another operation than ``own`` is not over: the tables may be between two paths."""
    pending = pending_operation(home)
    if pending is not None and pending.id != own:
        raise pending.pending_error()


def read_all(home: StreamHome, file: ControlFile[Record]) -> list[Record]:
    """Read the records of all keys, in the order of the keys. Raises DamagedFile, ControlUnreachable."""
    folder = file.folder(home)
    with reaching_records(folder):
        names = record_names(folder, "[!.]*.json")
    found = (RecordFile(folder / name, file.kind).require() for name in names)
    return [record for record in found if record is not None]


def forget_approved(home: StreamHome, over: OperationRecord) -> None:
    """Note that no try begins the tries of the ended command ``over``, and those for a lineage that it left."""
    with suppress(OSError, ControlUnreachable, DamagedFile, UnwritablePath, DiskFull):
        for waiting in unbegun_commands(home):
            is_left = over.lineage_to is not None and waiting.lineage_from != over.lineage_to
            approvals = [(each.verb, each.savepoint, each.digest, each.request) for each in (waiting, over)]
            if is_left or (approvals[0] == approvals[1] and waiting.begun_at <= over.begun_at):
                write_request(home, replace(waiting, asked_at=None))


def unbegun_commands(home: StreamHome) -> list[OperationRecord]:
    """Return the approved commands that wait for the stream, the newest first.

    Raises DamagedFile, ControlUnreachable.
    """
    waiting = [each for each in read_requests(home) if each.asked_at is not None]
    begun = {each.id for each in read_operations(home)} if waiting else set()
    return [each for each in reversed(waiting) if each.id not in begun]


def abandon_unbegun(home: StreamHome, command: OperationRecord, by: str) -> bool:
    """Record that ``by`` gave ``command`` up. False if it has begun.

    Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    have_folder(OPERATION_FILE.folder(home), "the record of an operation")
    abandoned = replace(command, outcome=Ending.ABANDONED, abandoned_by=by)
    return OPERATION_FILE.of(home, command.id).create(abandoned)


def write_unless_abandoned(home: StreamHome, record: OperationRecord) -> None:
    """Write the record of a command at work, unless a user gave it up first: one of the two creates the file.

    Raises StreamMovedOn, UnwritablePath, DiskFull, ControlUnreachable, DamagedFile.
    """
    have_folder(OPERATION_FILE.folder(home), "the record of an operation")
    file = OPERATION_FILE.of(home, record.id)
    if file.require() is None and file.create(record):
        return
    require_not_abandoned(home, file.require())
    file.write(record)


def require_not_abandoned(home: StreamHome, found: OperationRecord | None) -> None:
    """Raise StreamMovedOn if the operation, read anew, was given up. None: it has no record so far."""
    if found is not None and found.outcome is Ending.ABANDONED:
        by = f" by {found.abandoned_by}" if found.abandoned_by else ""
        raise StreamMovedOn(home.name, found.digest, f"{found.verb} {found.id} was abandoned{by}")
