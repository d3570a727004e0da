"""Everything this module raises on purpose.

::

    SessionizerError
    ├── TerminalError            a retry cannot help
    │   ├── InvalidSpec          a field of a stream spec
    │   ├── UnknownStream        no spec of that name
    │   ├── DuplicateStream      two specs of one name
    │   ├── UnwritablePath       a directory we must write to
    │   ├── LeaseHeld            another live driver owns the stream
    │   ├── LeaseLost            this driver was replaced: it writes nothing more
    │   ├── TableOwned           a table that another stream writes
    │   ├── StreamDrained        a stream whose every session was closed for good
    │   ├── UnreadableLineage    a checkpoint of another release or stream
    │   ├── OperationPending     a restore or the like that was begun and is not over
    │   ├── UnknownSavepoint     no savepoint of that id
    │   ├── UnusableSavepoint    a savepoint that nothing can be started from
    │   ├── NothingToSave        a stream without a batch that a savepoint could be of
    │   ├── DataElsewhere        a lineage whose data root is not the one that is given
    │   ├── HalfWrittenBatch     a batch that must be finished before the state can go elsewhere
    │   ├── UnfaithfulState      a new lineage that does not hold what it was given
    │   ├── PlanChanged          a plan that is not the one that was approved
    │   ├── EventsGone           what a restore would have to read again is no longer in the source
    │   ├── RowsLeft             rows that were to leave a table and are there again
    │   ├── DamagedFile          a control file whose content is lost, and must not be guessed
    │   ├── PrivateDoorBroken    this Spark or Delta no longer has what is used of it without a public name
    │   └── QueryFailed          the streaming query failed, and would again
    └── TransientError           the same call may succeed later
        ├── ControlUnreachable   the control directory cannot be reached just now
        ├── DriverStillRuns      a driver that was asked to stop and has not ended yet
        ├── DiskFull             a path that has no room just now
        ├── BatchOutrun          a running stream no longer keeps the batch that is being saved
        ├── StoreUnreachable     a store or name node that does not answer
        ├── SourceUnreachable    a broker or socket that does not answer
        └── QueryInterrupted     the streaming query failed through its surroundings (disk, memory, network)

The facts are fields; the message is composed from them. What to do about it is not said here but at the edge
(``sessionizer.causes.remedies``), where it is known who reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from upath import UPath


class SessionizerError(Exception):
    """Root of the tree. ``exit_code`` is what the command line ends with."""

    exit_code: ClassVar[int] = 1


class TerminalError(SessionizerError):
    """A retry cannot help: somebody has to change something first."""

    exit_code = 10


class TransientError(SessionizerError):
    """The same call may succeed later: the supervisor retries with backoff."""

    exit_code = 20


class InvalidSpec(TerminalError):
    """A stream spec that must not start: ``field`` (dotted path), its ``value`` and what is ``allowed``.

    ``file`` and ``line`` (from 1) say where, as far as it is known.
    """

    exit_code = 11

    def __init__(
        self, field: str, value: object, allowed: str, *, file: Path | None = None, line: int | None = None
    ) -> None:
        self.field, self.value, self.allowed, self.file, self.line = field, value, allowed, file, line
        place = f"{file}:{line}" if line else str(file)
        where = f"{place}: " if file else ""
        super().__init__(f"{where}{field} is {value!r}; allowed: {allowed}")


class UnknownStream(TerminalError):
    """No spec of this ``name``; ``known`` are those that exist."""

    exit_code = 12

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(sorted(known))
        super().__init__(f"no stream named {name!r}; known: {', '.join(self.known) or 'none'}")


class DuplicateStream(TerminalError):
    """Two spec files describe a stream of one ``name``: they would share a checkpoint."""

    exit_code = 12

    def __init__(self, name: str, files: Iterable[Path]) -> None:
        self.name, self.files = name, tuple(files)
        super().__init__(f"stream {name!r} is described by {len(self.files)} files: {', '.join(map(str, self.files))}")


class UnwritablePath(TerminalError):
    """``path`` is needed as ``purpose`` but cannot be written: ``cause``."""

    exit_code = 13

    def __init__(self, path: Path | str, purpose: str, cause: str) -> None:
        self.path, self.purpose, self.cause = path, purpose, cause
        super().__init__(f"cannot write {purpose} at {path}: {cause}")


class LeaseHeld(TerminalError):
    """The stream already has a live driver: starting a second one would corrupt nothing, so it is refused."""

    exit_code = 14

    def __init__(self, stream: str, uid: str, pid: int, host: str) -> None:
        self.stream, self.uid, self.pid, self.host = stream, uid, pid, host
        super().__init__(f"stream {stream!r} is driven by {uid} (pid {pid} on {host})")


class LeaseLost(TerminalError):
    """A newer driver took over (``newest`` token > ours): whatever we wrote now could be written twice."""

    exit_code = 15

    def __init__(self, stream: str, token: int, newest: int) -> None:
        self.stream, self.token, self.newest = stream, token, newest
        reason = f"{newest} was given out" if newest > token else "its lease record is gone or another's"
        super().__init__(f"driver of {stream!r} holds fencing token {token}, but {reason}")


class DamagedFile(TerminalError):
    """A control file at ``path`` that exists or must exist, but whose content is lost: ``cause``."""

    exit_code = 17

    def __init__(self, path: Path | UPath, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"{path} is damaged: {cause}")


class TableOwned(TerminalError):
    """The table at ``location`` belongs to ``owner``: a second writer would put every session into it once more.

    ``stream`` is who was refused; owners are streams of a platform home, such as ``clicks@1f2e…``.
    """

    exit_code = 18

    def __init__(self, location: str, owner: str, stream: str) -> None:
        self.location, self.owner, self.stream = location, owner, stream
        super().__init__(f"the table at {location} belongs to {owner}, not to {stream}")


class StreamDrained(TerminalError):
    """``lineage`` of ``stream`` was drained at ``batch_id``: its watermark is at the end of time, all would be late."""

    exit_code = 19

    def __init__(self, stream: str, lineage: str, batch_id: int | None, at: str) -> None:
        self.stream, self.lineage, self.batch_id, self.at = stream, lineage, batch_id, at
        after = "" if batch_id is None else f" after batch {batch_id}"
        super().__init__(f"stream {stream!r} was drained on {at}{after}: every session is closed, and it is over")


class UnreadableLineage(TerminalError):
    """The checkpoint of ``lineage`` is none that a driver of ``stream`` can go on with: ``cause``."""

    exit_code = 17

    def __init__(self, stream: str, lineage: str, cause: str) -> None:
        self.stream, self.lineage, self.cause = stream, lineage, cause
        super().__init__(f"stream {stream!r} cannot go on with its lineage {lineage}: {cause}")


class OperationPending(TerminalError):
    """``verb`` of ``stream`` (to ``savepoint``) was begun and came as far as ``step``: nothing else may start."""

    exit_code = 30

    def __init__(self, stream: str, verb: str, savepoint: str, step: str) -> None:
        self.stream, self.verb, self.savepoint, self.step = stream, verb, savepoint, step
        super().__init__(f"a {verb} of {stream!r} to {savepoint} was begun and is not over: it has come to {step!r}")


class UnknownSavepoint(TerminalError):
    """No savepoint is called ``savepoint``; ``known`` are those that are there."""

    exit_code = 12

    def __init__(self, savepoint: str, known: Iterable[str]) -> None:
        self.savepoint, self.known = savepoint, tuple(known)
        super().__init__(f"no savepoint {savepoint!r}; there are: {', '.join(self.known) or 'none'}")


class UnusableSavepoint(TerminalError):
    """Nothing can be started from ``savepoint``: ``cause``."""

    exit_code = 17

    def __init__(self, savepoint: str, cause: str) -> None:
        self.savepoint, self.cause = savepoint, cause
        super().__init__(f"savepoint {savepoint} cannot be used: {cause}")


class NothingToSave(TerminalError):
    """There is no batch of ``stream`` that a savepoint could be of: ``cause``."""

    def __init__(self, stream: str, cause: str) -> None:
        self.stream, self.cause = stream, cause
        super().__init__(f"there is nothing of stream {stream!r} to save: {cause}")


class DataElsewhere(TerminalError):
    """``lineage`` of ``stream`` has its data at ``kept``, and ``field`` says ``now``: nothing of it is there."""

    exit_code = 17

    def __init__(self, stream: str, lineage: str, field: str, kept: str, now: str) -> None:
        self.stream, self.lineage, self.field, self.kept, self.now = stream, lineage, field, kept, now
        super().__init__(f"{field} is {now!r}, but lineage {lineage} of stream {stream!r} has its data at {kept!r}")


class HalfWrittenBatch(TerminalError):
    """Tables of ``stream`` have rows of ``batch_id``, which is not committed: only its own lineage can finish it."""

    def __init__(self, stream: str, batch_id: int) -> None:
        self.stream, self.batch_id = stream, batch_id
        super().__init__(f"batch {batch_id} of stream {stream!r} was cut short after it had written to the tables")


class UnfaithfulState(TerminalError):
    """A new lineage of ``stream`` did not come to hold what it was given: ``difference``. It was not activated."""

    exit_code = 17

    def __init__(self, stream: str, difference: str) -> None:
        self.stream, self.difference = stream, difference
        super().__init__(f"a new lineage of stream {stream!r} does not hold what it was given: {difference}")


class PlanChanged(TerminalError):
    """What would be done to ``stream`` now has the digest ``now``, not ``approved``."""

    def __init__(self, stream: str, approved: str, now: str) -> None:
        self.stream, self.approved, self.now = stream, approved, now
        super().__init__(f"the plan for stream {stream!r} has the digest {now}, and {approved} was approved")


class EventsGone(TerminalError):
    """``missing`` are the parts of the source that a restore of ``stream`` would have to read again and cannot."""

    exit_code = 31

    def __init__(self, stream: str, missing: Iterable[str]) -> None:
        self.stream, self.missing = stream, tuple(missing)
        named = ", ".join(self.missing[:3])
        super().__init__(f"{len(self.missing)} parts of the source of {stream!r} are gone, such as {named}")


class RowsLeft(TerminalError):
    """``rows`` that a restore of ``stream`` took back are in the table at ``location`` again: somebody writes there."""

    exit_code = 32

    def __init__(self, stream: str, location: str, rows: int) -> None:
        self.stream, self.location, self.rows = stream, location, rows
        super().__init__(f"{rows} rows that the restore of {stream!r} takes back are in {location} again")


class QueryFailed(TerminalError):
    """The streaming query ended with ``cause`` (a condition name) and would end the same way again."""

    exit_code = 16

    def __init__(self, stream: str, cause: str, detail: str) -> None:
        self.stream, self.cause, self.detail = stream, cause, detail
        super().__init__(f"the query of {stream!r} failed ({cause}): {detail}")


class PrivateDoorBroken(TerminalError):
    """What ``door`` uses of Spark, Delta or PySpark without a public name is not there: ``missing`` says what."""

    exit_code = 16

    def __init__(self, door: str, missing: str) -> None:
        self.door, self.missing = door, missing
        super().__init__(f"the door {door!r} to what is private in Spark or Delta is broken: {missing}")


class ControlUnreachable(TransientError):
    """What is at ``path`` cannot be reached just now: ``cause`` (a stale mount, too many open files)."""

    exit_code = 23

    def __init__(self, path: Path | UPath | str, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"cannot reach {path}: {cause}")


class DriverStillRuns(TransientError):
    """Driver ``uid`` of ``stream`` was asked to stop, and its batch was not over after ``waited_s`` seconds."""

    exit_code = 3

    def __init__(self, stream: str, uid: str, waited_s: float) -> None:
        self.stream, self.uid, self.waited_s = stream, uid, waited_s
        super().__init__(f"driver {uid} of {stream!r} still runs {waited_s:g} s after it was asked to stop")


class DiskFull(TransientError):
    """``path`` is needed as ``purpose``, and there is no room for it (or no quota) just now: ``detail``."""

    exit_code = 24
    cause: ClassVar[str] = "disk_full"

    def __init__(self, path: Path | str, purpose: str, detail: str) -> None:
        self.path, self.purpose, self.detail = path, purpose, detail
        super().__init__(f"no room for {purpose} at {path}: {detail}")


class StoreUnreachable(TransientError):
    """The store or name node of ``path``, needed as ``purpose``, does not answer just now: ``detail``."""

    exit_code = 25
    cause: ClassVar[str] = "unreachable"

    def __init__(self, path: Path | str, purpose: str, detail: str) -> None:
        self.path, self.purpose, self.detail = path, purpose, detail
        super().__init__(f"no answer about {purpose} at {path}: {detail}")


class SourceUnreachable(TransientError):
    """A broker or socket did not answer at ``address``: ``cause``."""

    exit_code = 21

    def __init__(self, address: str, cause: str) -> None:
        self.address, self.cause = address, cause
        super().__init__(f"source at {address} is unreachable: {cause}")


class BatchOutrun(TransientError):
    """The stream went on so far while its batch ``batch_id`` was read that it no longer keeps all of it: ``cause``."""

    def __init__(self, stream: str, batch_id: int, cause: str) -> None:
        self.stream, self.batch_id, self.cause = stream, batch_id, cause
        super().__init__(f"batch {batch_id} of stream {stream!r} is no longer whole: {cause}")


class QueryInterrupted(TransientError):
    """The streaming query ended with ``cause`` that its surroundings, not its input or code, explain."""

    exit_code = 22

    def __init__(self, stream: str, cause: str, detail: str) -> None:
        self.stream, self.cause, self.detail = stream, cause, detail
        super().__init__(f"the query of {stream!r} was interrupted ({cause}): {detail}")
