"""Errors of a stream's tables and data: another owner, rows that are missing, and rows that should not be there."""

from __future__ import annotations

from sessionizer.counts import count_is
from sessionizer.errors.tree import TerminalError, TransientError


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
