"""Errors that keep a stream's state from being resumed, saved or restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.errors.tree import TerminalError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterable


class StreamDrained(TerminalError):
    """``lineage`` of ``stream`` was drained at ``batch_id``: its watermark is at the end of time, all would be late."""

    exit_code = 19

    def __init__(self, stream: str, lineage: str, batch_id: int | None, at: str) -> None:
        self.stream, self.lineage, self.batch_id, self.at = stream, lineage, batch_id, at
        after = "" if batch_id is None else f" after batch {batch_id}"
        super().__init__(
            f"stream {stream!r} was drained on {at}{after}: every session is closed, and the stream is over"
        )


class UnreadableLineage(TerminalError):
    """The checkpoint of ``lineage`` cannot be resumed by a driver of ``stream``: ``cause``."""

    exit_code = 17

    def __init__(self, stream: str, lineage: str, cause: str) -> None:
        self.stream, self.lineage, self.cause = stream, lineage, cause
        super().__init__(f"stream {stream!r} cannot resume its lineage {lineage}: {cause}")


class EngineChanged(TerminalError):
    """``lineage`` of ``stream`` was made by the version ``kept`` of ``program``, and ``now`` is on another line."""

    exit_code = 61

    def __init__(self, stream: str, lineage: str, program: str, kept: str, now: str) -> None:
        self.stream, self.lineage, self.program, self.kept, self.now = stream, lineage, program, kept, now
        super().__init__(
            f"lineage {lineage} of stream {stream!r} was made by {program} {kept}, but {program} {now} is installed"
        )


class NotAccepted(TerminalError):
    """``verb`` of ``stream`` would take the differences ``names``, which a user has not accepted by name."""

    exit_code = 64

    def __init__(self, stream: str, verb: str, names: Iterable[str]) -> None:
        self.stream, self.verb, self.names = stream, verb, tuple(names)
        options = " ".join(f"--accept {name}" for name in self.names)
        super().__init__(f"the {verb} of stream {stream!r} needs each of these accepted by name: {options}")


class DataElsewhere(TerminalError):
    """``lineage`` of ``stream`` has its data at ``kept``, and ``field`` says ``now``: nothing of it is there."""

    exit_code = 17

    def __init__(self, stream: str, lineage: str, field: str, kept: str, now: str) -> None:
        self.stream, self.lineage, self.field, self.kept, self.now = stream, lineage, field, kept, now
        super().__init__(f"{field} is {now!r}, but lineage {lineage} of stream {stream!r} has its data at {kept!r}")


class OperationPending(TerminalError):
    """``verb`` of ``stream`` (to ``savepoint``, if any) was begun and came to ``step``: nothing else may start."""

    exit_code = 30

    def __init__(self, stream: str, verb: str, savepoint: str, step: str) -> None:
        self.stream, self.verb, self.savepoint, self.step = stream, verb, savepoint, step
        to = f" to {savepoint}" if savepoint else ""
        super().__init__(f"the {verb} of stream {stream!r}{to} is not finished: its last step is '{step}'")


class StreamBegun(TerminalError):
    """The ``stream`` cannot begin with a history: it has ``lineage`` already, and ``--start-over`` was not given."""

    def __init__(self, stream: str, lineage: str) -> None:
        self.stream, self.lineage = stream, lineage
        super().__init__(f"stream {stream!r} has already begun, in lineage {lineage}")


class NothingToSave(TerminalError):
    """The ``stream`` has no batch that a savepoint could be made of: ``cause``."""

    def __init__(self, stream: str, cause: str) -> None:
        self.stream, self.cause = stream, cause
        super().__init__(f"stream {stream!r} has nothing to save: {cause}")


class NothingToShow(TerminalError):
    """The ``stream`` has no batch that could be inspected: ``cause``."""

    def __init__(self, stream: str, cause: str) -> None:
        self.stream, self.cause = stream, cause
        super().__init__(f"stream {stream!r} has nothing to show: {cause}")


class DamagedCheckpoint(TerminalError):
    """The checkpoint at ``location`` has damaged files, of which ``count`` matter."""

    exit_code = 17

    def __init__(self, location: str, count: int) -> None:
        self.location, self.count = location, count
        what = "1 finding" if count == 1 else f"{count} findings"
        super().__init__(f"the checkpoint at {location} is damaged: {what}")


class BatchOutrun(TransientError):
    """The stream went on so far while its batch ``batch_id`` was read that it no longer keeps all of it: ``cause``."""

    def __init__(self, stream: str, batch_id: int, cause: str) -> None:
        self.stream, self.batch_id, self.cause = stream, batch_id, cause
        super().__init__(f"batch {batch_id} of stream {stream!r} was removed while it was read: {cause}")


class HalfWrittenBatch(TerminalError):
    """Tables of ``stream`` have rows of ``batch_id``, which is not committed: only its own lineage can finish it."""

    def __init__(self, stream: str, batch_id: int) -> None:
        self.stream, self.batch_id = stream, batch_id
        super().__init__(
            f"batch {batch_id} of stream {stream!r} ended after it had written to some tables, and is not committed"
        )


class UnfaithfulState(TerminalError):
    """A new lineage of ``stream`` differs from the state that it was given: ``difference``. It was not activated."""

    exit_code = 17

    def __init__(self, stream: str, difference: str) -> None:
        self.stream, self.difference = stream, difference
        super().__init__(f"a new lineage of stream {stream!r} differs from the state it was made of: {difference}")


class UnknownSavepoint(TerminalError):
    """No savepoint has the id ``savepoint``. ``known`` are the existing ones."""

    exit_code = 12

    def __init__(self, savepoint: str, known: Iterable[str]) -> None:
        self.savepoint, self.known = savepoint, tuple(known)
        super().__init__(f"no savepoint has the id {savepoint!r}. Known savepoints: {', '.join(self.known) or 'none'}")


class UnusableSavepoint(TerminalError):
    """The ``savepoint`` cannot start a stream: ``cause``."""

    exit_code = 17

    def __init__(self, savepoint: str, cause: str) -> None:
        self.savepoint, self.cause = savepoint, cause
        super().__init__(f"savepoint {savepoint} cannot be used: {cause}")


class MigrationRefused(TerminalError):
    """The ``migration`` of ``stream`` cannot be applied: ``cause``. ``to_do`` says what to do, in the imperative."""

    exit_code = 62

    def __init__(self, stream: str, migration: str, cause: str, to_do: str) -> None:
        self.stream, self.migration, self.cause, self.to_do = stream, migration, cause, to_do
        super().__init__(f"migration {migration!r} of stream {stream!r} cannot be applied: {cause}. {to_do}")


class NoWayBack(TerminalError):
    """The predecessor of ``lineage`` of ``stream`` cannot be resumed: ``cause``."""

    exit_code = 35

    def __init__(self, stream: str, lineage: str, cause: str) -> None:
        self.stream, self.lineage, self.cause = stream, lineage, cause
        super().__init__(f"stream {stream!r} cannot roll back from its lineage {lineage}: {cause}")


class PlanChanged(TerminalError):
    """The plan for ``stream`` now has the digest ``now``, not ``approved``."""

    def __init__(self, stream: str, approved: str, now: str) -> None:
        self.stream, self.approved, self.now = stream, approved, now
        super().__init__(
            f"the plan for stream {stream!r} has changed: its digest is {now}, but {approved} was approved"
        )


class StreamMovedOn(TerminalError):
    """``stream`` is no longer as it was when the plan of ``digest`` was made: ``cause``. Nothing was changed."""

    exit_code = 42

    def __init__(self, stream: str, digest: str, cause: str) -> None:
        self.stream, self.digest, self.cause = stream, digest, cause
        super().__init__(f"stream {stream!r} has changed since plan {digest} was made: {cause}")


class OperationPastReturn(TerminalError):
    """The operation ``verb`` of ``stream`` has reached ``step``. It can only be completed, by ``command``."""

    exit_code = 43

    def __init__(self, stream: str, verb: str, step: str, command: str) -> None:
        self.stream, self.verb, self.step, self.command = stream, verb, step, command
        super().__init__(f"the {verb} of stream {stream!r} cannot be abandoned: its last step is '{step}'")


class StreamRunsAgain(TerminalError):
    """Driver ``uid`` of ``stream`` was started after the stop that a savepoint asked for, so it reads on."""

    exit_code = 44

    def __init__(self, stream: str, uid: str) -> None:
        self.stream, self.uid = stream, uid
        super().__init__(f"stream {stream!r} was stopped for the savepoint, but driver {uid} has been started since")


class EventsGone(TerminalError):
    """The parts of the source in ``missing`` are gone, and a restore of ``stream`` would have to read them again."""

    exit_code = 31

    def __init__(self, stream: str, missing: Iterable[str]) -> None:
        self.stream, self.missing = stream, tuple(missing)
        named, more = ", ".join(self.missing[:3]), ", …" if len(self.missing) > 3 else ""  # noqa: PLR2004
        super().__init__(f"{len(self.missing)} parts of the source of stream {stream!r} are gone: {named}{more}")


class EventsUnread(TerminalError):
    """The source that ``stream`` was to leave has ``items`` unread (such as files: ``unit``)."""

    exit_code = 34

    def __init__(self, stream: str, items: int, unit: str) -> None:
        self.stream, self.items, self.unit = stream, items, unit
        super().__init__(f"stream {stream!r} has not read {items:,} {unit} of its old source")


class RowsGone(TerminalError):
    """Rows of ``stream`` that should come back were in ``version`` of the table at ``location``: ``cause``."""

    exit_code = 60

    def __init__(self, stream: str, location: str, version: int, cause: str) -> None:
        self.stream, self.location, self.version, self.cause = stream, location, version, cause
        super().__init__(
            f"rows of stream {stream!r} that an earlier command deleted cannot come back, because "
            f"version {version} of {location} cannot be read: {cause}"
        )


class RowsLeft(TerminalError):
    """``rows`` that a command of ``stream`` deleted are in the table at ``location`` again: another job writes it."""

    exit_code = 32

    def __init__(self, stream: str, location: str, rows: int) -> None:
        self.stream, self.location, self.rows = stream, location, rows
        super().__init__(
            f"{rows} rows that a command of stream {stream!r} deleted are in {location} again: "
            "another job writes this table"
        )


class LineageUnfit(TerminalError):
    """``lineage`` of ``stream`` failed its canary: ``reason``. A rollback leads to the one ``before``, if any."""

    exit_code = 36

    def __init__(self, stream: str, lineage: str, before: str | None, reason: str) -> None:
        self.stream, self.lineage, self.before, self.reason = stream, lineage, before, reason
        super().__init__(f"lineage {lineage} of stream {stream!r} failed its canary: {reason}")


class LineageLeft(TransientError):
    """``lineage`` of ``stream`` failed its canary: ``reason``. The next driver rolls back to the one ``before``."""

    exit_code = 37

    def __init__(self, stream: str, lineage: str, before: str, reason: str) -> None:
        self.stream, self.lineage, self.before, self.reason = stream, lineage, before, reason
        super().__init__(
            f"lineage {lineage} of stream {stream!r} failed its canary: {reason}. "
            f"The next driver rolls back to lineage {before}"
        )
