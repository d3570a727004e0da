"""Errors of a stream's tables and of its source: another owner, another source, rows or events that are missing."""

from collections.abc import Sequence
from typing import Final

from sessionizer.counts import count_is, count_text
from sessionizer.errors.tree import OfStream, TerminalError, TransientError


class TableOwned(TerminalError, exit_code=18):
    """A table that a stream of another home or name writes: ``owner``, such as ``clicks@1f2e…``."""

    title = "another stream owns a table"
    message = "the table at {0.location} belongs to {0.owner}, not to {0.stream}"
    remedy = "give sink.path a folder of its own, because a table takes the sessions of one stream of one home"
    location: str
    owner: str
    stream: str

    def advise(self) -> str:
        """Return the statement that hands the table over."""
        alter = f"ALTER TABLE delta.`{self.location}` SET TBLPROPERTIES ('sessionizer.owner' = '{self.stream}')"
        return f"give sink.path another folder. If that owner is gone for good, hand the table over: {alter}"


class DataOwned(TerminalError, exit_code=18, of_any_lineage=True):
    title = "another home has this stream"
    message = "the data at {0.location} belongs to {0.owner} of home {0.home}, not to {0.stream}"
    remedy = "give this home a data root of its own (SESSIONIZER_DATA), or run the stream from the other home"
    location: str
    owner: str
    home: str
    stream: str


class HomeCopied(TerminalError, exit_code=41, of_any_lineage=True):
    title = "the home is a copy"
    message = "the home at {0.path} is a copy of home {0.home} at {0.noted}, or was moved from there"
    remedy = (
        "run `sessionizer home --moved-here` if the home was moved and its old place is no longer in use. Give a copy "
        "places of its own: SESSIONIZER_DATA, and sink.path in the specs"
    )
    path: str
    home: str
    noted: str


class DataAway(OfStream, TransientError, exit_code=40):
    title = "its data is not there"
    message = "{0.what} of stream {0.stream!r} is no longer at {0.location}"
    remedy = (
        "mount what the message names. If a table is gone for good, `sessionizer run … --accept-tables` makes it anew. "
        "If a checkpoint is gone, restore a savepoint (`sessionizer savepoint list …`)"
    )
    what: str
    location: str


class StateBehindTables(OfStream, TerminalError, exit_code=38, of_any_lineage=True):
    """Rows of a batch that the state lacks, or a change of rows by an operation that the home lacks.

    ``known`` is the newest batch of that lineage that its checkpoint has begun: -1 for none, None if the lineage is
    unknown here. ``batch_id`` is None for an operation, whose id is in place of a lineage's.
    """

    title = "the state is older than its tables"
    remedy = (
        "put back the newer home and data. If they are lost, continue from the older state: run `sessionizer savepoint "
        "create …`, then `sessionizer restore … SAVEPOINT`. The restore deletes the later rows and reads their events "
        "again"
    )
    location: str
    lineage: str
    batch_id: int | None
    known: int | None

    def __str__(self) -> str:
        if self.batch_id is None:
            changed = f"operation {self.lineage} changed rows of {self.location}"
            return f"the state of stream {self.stream!r} is older than its tables: {changed}, but this home lacks it"
        begun = "no batch" if self.known == -1 else f"batch {self.known}"
        here = "this home does not know that lineage" if self.known is None else f"its checkpoint has begun {begun}"
        has = f"{self.location} has batch {self.batch_id} of lineage {self.lineage}"
        return f"the state of stream {self.stream!r} is older than its tables: {has}, but {here}"

    def advise(self) -> str | None:
        """Return the way back if no home knows the lineage."""
        if self.known is not None:
            return None
        before = f"restore a savepoint from before it (`sessionizer savepoint list {self.stream}`)"
        newer = f"put back the newer home, which knows {self.lineage}. If it is lost,"
        if self.batch_id is None:
            return f"{newer} {before}. The restore brings back what it needs"
        delete = f"DELETE FROM delta.`{self.location}` WHERE lineage = '{self.lineage}'"  # noqa: S608  for people
        return f"{newer} delete the rows of that lineage from each table ({delete}). Then {before}"


class RowsMissing(OfStream, TerminalError, exit_code=39, of_any_lineage=True):
    """A table without rows of ``batch_id``. ``found`` is the newest batch of the lineage in it, None for none."""

    title = "a table lacks rows"
    remedy = (
        "put the table back, or restore a savepoint from before (`sessionizer savepoint list …`). To continue without "
        "the rows: `sessionizer run … --accept-tables`"
    )
    location: str
    lineage: str
    batch_id: int
    found: int | None

    def __str__(self) -> str:
        newest = "no batch of it" if self.found is None else f"batches up to {self.found} only"
        wrote = f"lineage {self.lineage} wrote batch {self.batch_id} there"
        return f"the table at {self.location} lacks rows of stream {self.stream!r}: {wrote}, but the table has {newest}"


class RowsGone(OfStream, TerminalError, exit_code=60):
    title = "deleted rows cannot come back"
    message = (
        "rows of stream {0.stream!r} that an earlier command deleted cannot come back, because version {0.version} of "
        "{0.location} cannot be read: {0.cause}"
    )
    remedy = (
        "restore another savepoint (`sessionizer savepoint list …`), one of the active lineage if there is one. Or "
        "start over from the source: `sessionizer seed … --history source --backfill --start-over`. Nothing was changed"
    )
    location: str
    version: int
    cause: str


class RowsLeft(OfStream, TerminalError, exit_code=32):
    title = "rows came back"
    remedy = (
        "find the job that writes into the table (the table's history names it) and stop it. Then run the same command "
        "again"
    )
    location: str
    rows: int

    def __str__(self) -> str:
        again = f"{count_is(self.rows, 'row')} in {self.location} again"
        return f"{again}, though a command of stream {self.stream!r} deleted them: another job writes this table"


class HalfWrittenBatch(OfStream, TerminalError):
    title = "a batch is half-written"
    message = (
        "batch {0.batch_id} of stream {0.stream!r} ended after it had written to some tables, and is not committed"
    )
    remedy = "finish that batch with the spec it was begun with: `sessionizer run … --until caught-up`"
    batch_id: int


_SHOWN: Final = 3
"""Number of files that a message names."""


class SourceUnreachable(TransientError, exit_code=21):
    title = "the source does not answer"
    message = "the source at {0.address} does not answer: {0.cause}"
    remedy = "start the server or mount the folder that the message names, or correct source in the spec"
    address: str
    cause: str


class SourceMissing(OfStream, TerminalError, exit_code=46):
    title = "the source is not there"
    message = "{0.field} of stream {0.stream!r} is {0.name!r}, which {0.place} does not have"
    remedy = (
        "create it, or correct the field in the spec and run `sessionizer spec check --deep …`. A stream that has "
        "begun can continue with another source: `sessionizer switch --start-at earliest …`"
    )
    field: str
    name: str
    place: str


class SourceForbidden(OfStream, TerminalError, exit_code=47):
    title = "the source may not be read"
    message = "stream {0.stream!r} may not read {0.name!r} ({0.field}) at {0.place}: {0.cause}"
    remedy = (
        "grant the right to read it, or correct the credentials in the spec. Then run `sessionizer spec check --deep …`"
    )
    field: str
    name: str
    place: str
    cause: str


class SourceReplaced(OfStream, TerminalError, exit_code=48, of_any_lineage=True):
    title = "the source was replaced"
    message = (
        "{0.name!r} of stream {0.stream!r} was replaced under its old name: its id was {0.known} and is now {0.now}. "
        "The positions that were read do not apply to it"
    )
    remedy = (
        "run `sessionizer switch --accept-loss …`: it shows what is lost, and continues with the source that is there "
        "now"
    )
    name: str
    known: str
    now: str


class SourceFilesGone(OfStream, TerminalError, exit_code=50):
    title = "files of the source are gone"
    remedy = (
        "put the files that the message names back under the same names. If they are gone for good, make an empty file "
        "of each name (`touch`): the stream then continues without their events"
    )
    batch_id: int
    files: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {len(self.files) - _SHOWN} more" if len(self.files) > _SHOWN else ""
        files = f"files of batch {self.batch_id} of stream {self.stream!r}"
        return f"{files} are gone before it read them: {', '.join(self.files[:_SHOWN])}{more}"


class SourceFileUnfit(TerminalError, exit_code=51):
    """A file of a history that cannot be read as the others are."""

    title = "a file cannot be read"
    message = "{0.file} cannot be read: {0.problem}"
    remedy = "repair the file that the message names, or move it out of the folder"
    file: str
    problem: str


class EventsGone(OfStream, TerminalError, exit_code=31):
    title = "events are no longer in the source"
    remedy = (
        "put back what the plan names, or restore a savepoint that needs none of it (`sessionizer savepoint list …`)"
    )
    missing: Sequence[str]

    def __str__(self) -> str:
        named, more = ", ".join(self.missing[:_SHOWN]), ", …" if len(self.missing) > _SHOWN else ""
        is_one = len(self.missing) == 1
        parts, are = ("1 part", "is") if is_one else (f"{len(self.missing)} parts", "are")
        return f"{parts} of the source of stream {self.stream!r} {are} gone: {named}{more}"


class EventsUnread(OfStream, TerminalError, exit_code=34):
    """A source that was to be left, with ``items`` unread (``unit``: files)."""

    title = "the old source has more"
    remedy = (
        "let the stream read the old source to its end, then switch. Or add --leave-unread, which loses the events "
        "that only the old source has. Nothing was changed"
    )
    items: int
    unit: str

    def __str__(self) -> str:
        unread = count_text(self.items, self.unit.removesuffix("s"))
        return f"stream {self.stream!r} has not read {unread} of its old source"
