"""The records of an operation on a stream's state: its plan, and the operation from approval to outcome.

``operations/<id>.json``: while an operation is not over no driver starts, because it might continue from a lineage some
of whose rows are deleted. ``plans/<request>.json``: a plan that a user may approve elsewhere. A request has one plan,
the first that was made. A later reader sees the same plan, whatever the stream did meanwhile. The digest tells at
execution whether the plan still holds.

``approved_commands/<id>.json``: commands that were approved, as they were before their first step. An operation has no
other record until then, and may wait for a driver's end or for its next try. Its file outlives a start or a stop of the
stream, so that a user can give the command up all the same. Several commands may wait at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.errors import ControlUnreachable, DamagedFile, OperationPending, StreamMovedOn
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store, record_names, unreachable
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile, Record, RecordFile, have_folder
from sessionizer.home.roots import uri_of
from sessionizer.redaction import redact

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


class OperationStage(StrEnum):
    """The last stage that an operation has completed."""

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
    """A ``verb`` that a user approved (``by``, the plan's ``digest``), at ``begun_at`` (epoch ms).

    ``seconds`` is the duration of the steps so far, such as ``stopped 1.2, seeded 8.4``. ``lineage_to`` is the lineage
    that it has made active, or given the spec, None before that. ``counts`` is the number of rows that leave each
    table, ``days`` (ISO) the days of these rows. ``wanted`` is the desired state of the stream afterwards. ``options``
    are the command's other options, as typed. ``failure`` is the failure of the last try, at ``failed_at`` (epoch ms),
    such as ``LeaseHeld: stream …``. ``decided`` has the fields that the digest covers, none in an earlier release.
    ``abandoned_by`` is the user who gave it up, None if it failed. ``tables`` is the newest version of each table
    before a restore changes rows, by its location.
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
    begun_at: Moment
    step: OperationStage = OperationStage.APPROVED
    step_at: Moment
    lineage_to: str | None = None
    seconds: str = ""
    counts: str = ""
    days: str = ""
    options: str = ""
    outcome: Ending | None = None
    failure: str | None = None
    failed_at: Moment | None = None
    decided: Mapping[str, Any] = field(default_factory=dict)
    abandoned_by: str | None = None
    tables: Mapping[str, int] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command that resumes it."""
        given = " ".join(filter(None, (self.stream, self.savepoint, self.options)))
        return f"sessionizer {self.verb} {given} --approve {self.digest}"

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
        return OperationPending(
            self.stream, self.verb, self.savepoint, self.reached, is_past_return=self.is_past_return
        )

    def failed(self, error: Exception) -> Self:
        """Return the record after a try that has failed with ``error``, now."""
        message = redact(str(error)).strip() or "no message"
        return replace(self, failure=f"{type(error).__name__}: {message.splitlines()[0]}", failed_at=epoch_ms())

    def record_step(self, step: OperationStage, *, since: int = 0, lineage_to: str | None = None) -> Self:
        """Return the record after ``step``, which was done now by a try that works ``since`` then (epoch ms).

        The step's seconds run from the step before, but only if the same try did that one.
        """
        now = epoch_ms()
        took = f"{step} {(now - max(self.step_at, since)) / 1000:.1f}"
        seconds = f"{self.seconds}, {took}" if self.seconds else took
        return replace(self, step=step, step_at=now, seconds=seconds, lineage_to=lineage_to or self.lineage_to)

    def has_done(self, step: OperationStage) -> bool:
        """Whether it has completed ``step``."""
        steps = list(OperationStage)
        return steps.index(self.step) >= steps.index(step)


OPERATION_FILE: Final = ControlFile("operations/{}.json", OperationRecord, key="operation")


def read_operations(home: StreamHome) -> list[OperationRecord]:
    """Read all operations, the oldest first. Raises DamagedFile, ControlUnreachable."""
    return read_all(home, OPERATION_FILE)


def pending_operation(home: StreamHome) -> OperationRecord | None:
    """Return the operation that is not over. Raises DamagedFile, ControlUnreachable."""
    return next((record for record in read_operations(home) if record.outcome is None), None)


def require_no_operation(home: StreamHome, own: str = "") -> None:
    """Raise OperationPending while an operation other than the ``own`` one is not over.

    Until then the tables may be between two paths: rows of one are deleted, and the lineage of the other is not active.
    What reads the position of the tables calls this before and after. Raises also DamagedFile, ControlUnreachable.
    """
    pending = pending_operation(home)
    if pending is not None and pending.id != own:
        raise pending.pending_error()


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRecord(JsonRecord):
    """A plan of a ``verb``, approved by ``digest``. ``text`` is the plan in lines, for people.

    ``savepoint`` is the savepoint that it uses, if any. ``options`` are the command's other options, as typed.
    ``possible`` tells whether it could be executed. ``made_at`` is epoch ms. ``decided`` has the fields that the digest
    covers, none in an earlier release.
    """

    request: str
    verb: str
    stream: str
    savepoint: str
    digest: str
    possible: bool
    text: str
    made_at: Moment
    options: str = ""
    decided: Mapping[str, Any] = field(default_factory=dict)


PLAN_FILE: Final = ControlFile("plans/{}.json", PlanRecord, key="request")


def keep_plan_of(home: StreamHome, plan: PlanRecord) -> PlanRecord:
    """Keep the plan unless its request has one. Returns the plan of the request.

    Raises UnwritablePath, DiskFull, ControlUnreachable, DamagedFile, InvalidSpec.
    """
    have_folder(PLAN_FILE.folder(home), "a plan")
    PLAN_FILE.of(home, plan.request).create(plan)
    return require_plan(home, plan.request)


def require_plan(home: StreamHome, request: str) -> PlanRecord:
    """Return the plan of the request. Raises DamagedFile also if it is absent, ControlUnreachable, InvalidSpec."""
    file = PLAN_FILE.of(home, request)
    plan = file.require()
    if plan is None:
        raise DamagedFile(uri_of(file.path), "it is gone")
    return plan


def read_plans(home: StreamHome) -> list[PlanRecord]:
    """Read all kept plans. Raises DamagedFile, ControlUnreachable."""
    return read_all(home, PLAN_FILE)


def read_all(home: StreamHome, file: ControlFile[Record]) -> list[Record]:
    """Read the records of all keys, in the order of the keys. Raises DamagedFile, ControlUnreachable."""
    folder = file.folder(home)
    try:
        names = record_names(folder, "[!.]*.json")
    except OSError as error:
        raise unreachable(folder, error) from error
    found = (RecordFile(folder / name, file.kind).require() for name in names)
    return [record for record in found if record is not None]


APPROVED_COMMAND_FILE: Final = ControlFile("approved_commands/{}.json", OperationRecord, key="command")


def note_approved(home: StreamHome, record: OperationRecord) -> None:
    """Note the command before it asks for the stream. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    have_folder(APPROVED_COMMAND_FILE.folder(home), "the note of a command")
    APPROVED_COMMAND_FILE.of(home, record.id).write(record)


def forget_approved(home: StreamHome, over: OperationRecord) -> None:
    """Delete the notes of commands that no try begins any more, now that the command ``over`` has ended.

    These are its own and those of its earlier tries, and of commands that were approved for a lineage that it has left.
    Never raises, because its end matters more.
    """
    with suppress(OSError, ControlUnreachable, DamagedFile):
        for noted in read_all(home, APPROVED_COMMAND_FILE):
            is_left = over.lineage_to is not None and noted.lineage_from != over.lineage_to
            is_its_own = noted.command == over.command and noted.begun_at <= over.begun_at
            if is_left or is_its_own:
                Store(APPROVED_COMMAND_FILE.of(home, noted.id).path).remove()


def unbegun_commands(home: StreamHome) -> list[OperationRecord]:
    """Return the approved commands that have done no step and are not over, the newest first.

    Raises DamagedFile, ControlUnreachable.
    """
    noted = read_all(home, APPROVED_COMMAND_FILE)
    begun = {each.id for each in read_operations(home)} if noted else set()
    return [each for each in reversed(noted) if each.id not in begun]


def abandon_unbegun(home: StreamHome, command: OperationRecord, by: str) -> bool:
    """Record that user ``by`` gave the unbegun ``command`` up. Return False if it has begun meanwhile.

    Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    have_folder(OPERATION_FILE.folder(home), "the record of an operation")
    abandoned = replace(command, outcome=Ending.ABANDONED, abandoned_by=by)
    return OPERATION_FILE.of(home, command.id).create(abandoned)


def write_unless_abandoned(home: StreamHome, record: OperationRecord) -> None:
    """Write the record of a command at work, unless a user gave the command up before its first record.

    The first record is created, as ``abandon_unbegun`` creates its own. So exactly one of the two is the first. From
    then on only the owner of the lease writes it. Raises StreamMovedOn, UnwritablePath, DiskFull, ControlUnreachable,
    DamagedFile.
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
