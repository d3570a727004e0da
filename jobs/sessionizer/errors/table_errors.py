"""Errors of a stream's tables and of its source: another owner, another source, rows or events that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.counts import count_is, count_text
from sessionizer.errors.tree import TerminalError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterable


class TableOwned(TerminalError):
    """The table at ``location`` belongs to ``owner``. A second writer would write every session into it once more.

    ``stream`` is the refused stream. Owners are streams of a platform home, such as ``clicks@1f2e…``.
    """

    exit_code = 18
    title = "another stream owns a table"
    remedy = "give sink.path a folder of its own, because a table takes the sessions of one stream of one home"

    def __init__(self, location: str, owner: str, stream: str) -> None:
        self.location, self.owner, self.stream = location, owner, stream
        super().__init__(f"the table at {location} belongs to {owner}, not to {stream}")

    def advise(self) -> str:
        """Return the statement that hands the table over."""
        alter = f"ALTER TABLE delta.`{self.location}` SET TBLPROPERTIES ('sessionizer.owner' = '{self.stream}')"
        return f"give sink.path another folder. If that owner is gone for good, hand the table over: {alter}"


class DataOwned(TerminalError):
    """The stream's data at ``location`` belongs to ``owner``, the stream of another ``home`` (a path on a host).

    ``stream`` is the refused stream, as in ``TableOwned``.
    """

    exit_code = 18
    title = "another home has this stream"
    of_any_lineage = True
    remedy = "give this home a data root of its own (SESSIONIZER_DATA), or run the stream from the other home"

    def __init__(self, location: str, owner: str, home: str, stream: str) -> None:
        self.location, self.owner, self.home, self.stream = location, owner, home, stream
        super().__init__(f"the data at {location} belongs to {owner} of home {home}, not to {stream}")


class HomeCopied(TerminalError):
    """The home at ``path`` may be a copy of one with the same id (``home``), made elsewhere, at ``noted``."""

    exit_code = 41
    title = "the home is a copy"
    of_any_lineage = True
    remedy = (
        "run `sessionizer home --moved-here` if the home was moved and its old place is no longer in use. Give a copy "
        "places of its own: SESSIONIZER_DATA, and sink.path in the specs"
    )

    def __init__(self, path: str, home: str, noted: str) -> None:
        self.path, self.home, self.noted = path, home, noted
        super().__init__(f"the home at {path} is a copy of home {home} at {noted}, or was moved from there")


class DataAway(TransientError):
    """A table or a checkpoint (``what``) that ``stream`` wrote is not at ``location``: perhaps a mount is away."""

    exit_code = 40
    title = "its data is not there"
    remedy = (
        "mount what the message names. If a table is gone for good, `sessionizer run … --accept-tables` makes it anew. "
        "If a checkpoint is gone, restore a savepoint (`sessionizer savepoint list …`)"
    )

    def __init__(self, stream: str, what: str, location: str) -> None:
        self.stream, self.what, self.location = stream, what, location
        super().__init__(f"{what} of stream {stream!r} is no longer at {location}")


class StateBehindTables(TerminalError):
    """The table at ``location`` has rows of ``lineage`` up to ``batch_id``, which the state of ``stream`` lacks.

    ``known`` is the newest batch of that lineage that its checkpoint has begun: -1 for none, None if the lineage is
    unknown here.
    """

    exit_code = 38
    title = "the state is older than its tables"
    of_any_lineage = True
    remedy = (
        "put back the newer home and data. If they are lost, continue from the older state: run `sessionizer savepoint "
        "create …`, then `sessionizer restore … SAVEPOINT`. The restore deletes the later rows and reads their events "
        "again"
    )

    def __init__(self, stream: str, location: str, lineage: str, batch_id: int, known: int | None) -> None:
        self.stream, self.location, self.lineage, self.batch_id, self.known = stream, location, lineage, batch_id, known
        here = "this home does not know that lineage" if known is None else f"its checkpoint has begun {_batch(known)}"
        super().__init__(
            f"the state of stream {stream!r} is older than its tables: {location} has batch {batch_id} of lineage "
            f"{lineage}, but {here}"
        )

    def advise(self) -> str | None:
        """Return the way back if no home knows the lineage."""
        if self.known is not None:
            return None
        delete = f"DELETE FROM delta.`{self.location}` WHERE lineage = '{self.lineage}'"  # noqa: S608  for people
        return (
            f"put back the newer home, which knows {self.lineage}. If it is lost, delete the rows of that lineage from "
            f"each table ({delete}). Then restore a savepoint from before it (`sessionizer savepoint list "
            f"{self.stream}`)"
        )


class RowsMissing(TerminalError):
    """The table at ``location`` lacks rows that ``lineage`` of ``stream`` wrote in ``batch_id``.

    ``found`` is the newest batch of the lineage that the table knows, None if it knows none.
    """

    exit_code = 39
    title = "a table lacks rows"
    of_any_lineage = True
    remedy = (
        "put the table back, or restore a savepoint from before (`sessionizer savepoint list …`). To continue without "
        "the rows: `sessionizer run … --accept-tables`"
    )

    def __init__(self, stream: str, location: str, lineage: str, batch_id: int, found: int | None) -> None:
        self.stream, self.location, self.lineage, self.batch_id, self.found = stream, location, lineage, batch_id, found
        newest = "no batch of it" if found is None else f"batches up to {found} only"
        super().__init__(
            f"the table at {location} lacks rows of stream {stream!r}: lineage {lineage} wrote batch {batch_id} there, "
            f"but the table has {newest}"
        )


class RowsGone(TerminalError):
    """Rows of ``stream`` that should come back were in ``version`` of the table at ``location``: ``cause``."""

    exit_code = 60
    title = "deleted rows cannot come back"
    remedy = (
        "restore another savepoint (`sessionizer savepoint list …`), one of the active lineage if there is one. Or "
        "start over from the source: `sessionizer seed … --history source --backfill --start-over`. Nothing was changed"
    )

    def __init__(self, stream: str, location: str, version: int, cause: str) -> None:
        self.stream, self.location, self.version, self.cause = stream, location, version, cause
        super().__init__(
            f"rows of stream {stream!r} that an earlier command deleted cannot come back, because "
            f"version {version} of {location} cannot be read: {cause}"
        )


class RowsLeft(TerminalError):
    """``rows`` that a command of ``stream`` deleted are in the table at ``location`` again: another job writes it."""

    exit_code = 32
    title = "rows came back"
    remedy = (
        "find the job that writes into the table (the table's history names it) and stop it. Then run the same command "
        "again"
    )

    def __init__(self, stream: str, location: str, rows: int) -> None:
        self.stream, self.location, self.rows = stream, location, rows
        super().__init__(
            f"{count_is(rows, 'row')} in {location} again, though a command of stream {stream!r} deleted them: "
            "another job writes this table"
        )


class HalfWrittenBatch(TerminalError):
    """Tables of ``stream`` have rows of ``batch_id``, which is not committed: only its own lineage can finish it."""

    title = "a batch is half-written"
    remedy = "finish that batch with the spec it was begun with: `sessionizer run … --until caught-up`"

    def __init__(self, stream: str, batch_id: int) -> None:
        self.stream, self.batch_id = stream, batch_id
        super().__init__(
            f"batch {batch_id} of stream {stream!r} ended after it had written to some tables, and is not committed"
        )


def _batch(batch_id: int) -> str:
    return "no batch" if batch_id < 0 else f"batch {batch_id}"


_SHOWN: Final = 3
"""Number of files that a message names."""


class SourceUnreachable(TransientError):
    """A broker or socket did not answer at ``address``: ``cause``."""

    exit_code = 21
    title = "the source does not answer"
    remedy = "start the server or mount the folder that the message names, or correct source in the spec"

    def __init__(self, address: str, cause: str) -> None:
        self.address, self.cause = address, cause
        super().__init__(f"the source at {address} does not answer: {cause}")


class SourceMissing(TerminalError):
    """The source of ``stream`` is not there: ``field`` of its spec names ``name``, which ``place`` does not have."""

    exit_code = 46
    title = "the source is not there"
    remedy = (
        "create it, or correct the field in the spec and run `sessionizer spec check --deep …`. A stream that has "
        "begun can continue with another source: `sessionizer switch --start-at earliest …`"
    )

    def __init__(self, stream: str, field: str, name: str, place: str) -> None:
        self.stream, self.field, self.name, self.place = stream, field, name, place
        super().__init__(f"{field} of stream {stream!r} is {name!r}, which {place} does not have")


class SourceForbidden(TerminalError):
    """The driver of ``stream`` may not read ``name`` (``field`` of its spec) at ``place``: ``cause``."""

    exit_code = 47
    title = "the source may not be read"
    remedy = (
        "grant the right to read it, or correct the credentials in the spec. Then run `sessionizer spec check --deep …`"
    )

    def __init__(self, stream: str, field: str, name: str, place: str, cause: str) -> None:
        self.stream, self.field, self.name, self.place, self.cause = stream, field, name, place, cause
        super().__init__(f"stream {stream!r} may not read {name!r} ({field}) at {place}: {cause}")


class SourceReplaced(TerminalError):
    """``name`` in the source of ``stream`` has the identity ``now``, and the stream has read one that was ``known``."""

    exit_code = 48
    title = "the source was replaced"
    of_any_lineage = True
    remedy = (
        "run `sessionizer switch --accept-loss …`: it shows what is lost, and continues with the source that is there "
        "now"
    )

    def __init__(self, stream: str, name: str, known: str, now: str) -> None:
        self.stream, self.name, self.known, self.now = stream, name, known, now
        super().__init__(
            f"{name!r} of stream {stream!r} was replaced under its old name: its id was {known} and is now {now}. "
            "The positions that were read do not apply to it"
        )


class SourceFilesGone(TerminalError):
    """Files of the source that a batch was planned with are gone, before the batch read them."""

    exit_code = 50
    title = "files of the source are gone"
    remedy = (
        "put the files that the message names back under the same names. If they are gone for good, make an empty file "
        "of each name (`touch`): the stream then continues without their events"
    )

    def __init__(self, stream: str, batch_id: int, files: tuple[str, ...]) -> None:
        self.stream, self.batch_id, self.files = stream, batch_id, files
        more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
        super().__init__(
            f"files of batch {batch_id} of stream {stream!r} are gone before it read them: "
            f"{', '.join(files[:_SHOWN])}{more}"
        )


class SourceFileUnfit(TerminalError):
    """A file of a history that cannot be read in the way that the others are."""

    exit_code = 51
    title = "a file cannot be read"
    remedy = "repair the file that the message names, or move it out of the folder"

    def __init__(self, file: str, problem: str) -> None:
        self.file, self.problem = file, problem
        super().__init__(f"{file} cannot be read: {problem}")


class EventsGone(TerminalError):
    """The parts of the source in ``missing`` are gone, and a command on ``stream`` would have to read them again."""

    exit_code = 31
    title = "events are no longer in the source"
    remedy = (
        "put back what the plan names, or restore a savepoint that needs none of it (`sessionizer savepoint list …`)"
    )

    def __init__(self, stream: str, missing: Iterable[str]) -> None:
        self.stream, self.missing = stream, tuple(missing)
        named, more = ", ".join(self.missing[:_SHOWN]), ", …" if len(self.missing) > _SHOWN else ""
        is_one = len(self.missing) == 1
        parts, are = ("1 part", "is") if is_one else (f"{len(self.missing)} parts", "are")
        super().__init__(f"{parts} of the source of stream {stream!r} {are} gone: {named}{more}")


class EventsUnread(TerminalError):
    """The source that ``stream`` was to leave has ``items`` unread (such as files: ``unit``)."""

    exit_code = 34
    title = "the old source has more"
    remedy = (
        "let the stream read the old source to its end, then switch. Or add --leave-unread, which loses the events "
        "that only the old source has. Nothing was changed"
    )

    def __init__(self, stream: str, items: int, unit: str) -> None:
        self.stream, self.items, self.unit = stream, items, unit
        unread = count_text(items, unit.removesuffix("s"))
        super().__init__(f"stream {stream!r} has not read {unread} of its old source")
