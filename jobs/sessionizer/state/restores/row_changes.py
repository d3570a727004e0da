"""The rows that leave a stream's tables, and those that come back, so that they hold exactly the rows on one path.

Decided from the records of the lineages alone. An earlier command may have deleted rows that are on the path again:
these come back from the table version that the savepoint's manifest names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sessionizer.errors import DataAway, RowsGone
from sessionizer.home.names import check_identifier, is_identifier
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.kept_spec import SinkFolder
from sessionizer.state.lineages.origin import BEFORE_THE_FIRST, NO_ROWS, BatchRange, Path, Segment, batches_only_on
from sessionizer.state.lineages.table_changes import has_recorded_rows, is_of_operation, writer_in


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Deletion of the rows of ``others`` and of rows behind the end of a segment, and return of the ``missing`` ones.

    ``path``: the tables' content afterwards. ``others``: the lineages of the stream that are not on it. ``missing``:
    batches on the path whose rows an earlier command deleted. ``since``: the lineage whose beginning last brought the
    tables onto its path. ``operations``: those that the home knows.
    """

    path: Path
    others: tuple[str, ...] = ()
    missing: tuple[BatchRange, ...] = ()
    since: str = ""
    operations: Collection[str] = ()

    @property
    def deleted_rows(self) -> str:
        """Condition, in SQL, of the rows that leave. Raises InvalidSpec for an invalid id."""
        ends = [f"(lineage = {_quote(each.lineage)} AND batch_id > {each.until})" for each in self._ended()]
        listed = ", ".join(_quote(name) for name in self.others)
        return " OR ".join([*ends, *([f"lineage IN ({listed})"] if listed else [])]) or "false"

    @property
    def missing_rows(self) -> str:
        """Condition, in SQL, of the rows that come back. Raises InvalidSpec for an invalid id."""
        return " OR ".join(map(_condition, self.missing)) or "false"

    @property
    def deleted(self) -> tuple[BatchRange, ...]:
        """Batches whose rows leave."""
        others = (BatchRange(lineage, BEFORE_THE_FIRST, None) for lineage in self.others)
        return (*(BatchRange(each.lineage, each.until, None) for each in self.path if each.until is not None), *others)

    def add_writers(self, wrote: Iterable[str]) -> RowChanges:
        """Return the changes of tables with transactions of ``wrote``, most of which are lineages of the stream.

        A later operation that no record knows means what an unknown lineage means.
        """
        names = list(wrote)
        changes = self.add_lineages(name for name in names if is_identifier(name) and not is_of_operation(name))
        operations = {writer_in(name) for name in names if is_of_operation(name)}
        if any(each > self.since for each in operations.difference(self.operations)):
            return replace(changes, missing=_whole_path(self.path))
        return changes

    def add_lineages(self, lineages: Iterable[str]) -> RowChanges:
        """Return the changes of tables that ``lineages`` wrote to: rows of those that no record knows leave, too.

        Then the records are of an earlier time than the tables, and do not tell which rows these lack: any may be
        missing.
        """
        found = {*self.others, *lineages} - {segment.lineage for segment in self.path}
        missing = self.missing if found == set(self.others) else _whole_path(self.path)
        return replace(self, others=tuple(sorted(found)), missing=missing)

    def _ended(self) -> list[Segment]:
        return [segment for segment in self.path if segment.until is not None]


@dataclass(frozen=True, slots=True)
class StreamedTable:
    """A table that batches of the stream write or wrote: ``name`` and ``location``.

    ``version``: the one with the rows that come back. None means that the table was not there then. ``has_rows``:
    whether a lineage noted that it wrote rows there.
    """

    name: str
    location: str
    version: int | None = None
    has_rows: bool = False


@dataclass(frozen=True, slots=True)
class RowsOfTable:
    """Rows of ``table`` that leave, ``by_day`` of its column ``date`` (ISO, UTC), and that come ``back``, by day."""

    table: str
    location: str
    by_day: Mapping[str, int]
    back: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows that leave."""
        return sum(self.by_day.values())

    @property
    def rows_back(self) -> int:
        """Number of rows that come back."""
        return sum(self.back.values())


def require_none_missing(stream: str, table: StreamedTable, changes: RowChanges) -> None:
    """Raise DataAway if a ``table`` that is not there has rows, and RowsGone if rows of it should come back."""
    if table.has_rows:
        raise DataAway(stream, f"the table {table.name}", table.location)
    if changes.missing and table.version is not None:
        raise RowsGone(stream, table.location, table.version, "the table is not there")


def changes_to(
    target: Path, active: Path, known: Iterable[str], operations: Collection[str] = frozenset(), since: str = ""
) -> RowChanges:
    """Return the row changes of the tables when ``target`` follows ``active``.

    ``known`` and ``operations``: every lineage and operation of the stream. ``since``: as in ``RowChanges``.

    By the invariant the tables hold the rows on ``active`` now. More rows than these are deleted if an earlier release
    left them.
    """
    on_path, names = {segment.lineage for segment in target}, {*known, *(segment.lineage for segment in active)}
    missing = batches_only_on(target, active) if on_path <= names else _whole_path(target)
    return RowChanges(target, tuple(sorted(names - on_path)), missing, since, operations)


def deletion_of_all(known: Iterable[str]) -> RowChanges:
    """Return the row changes of a stream that begins anew: the rows of all ``known`` lineages leave."""
    return changes_to(NO_ROWS, NO_ROWS, known)


def streamed_tables(
    home: StreamHome, folders: Iterable[SinkFolder], versions: Mapping[tuple[SinkFolder, str], int | None]
) -> list[StreamedTable]:
    """Return the tables that batches write in each folder. ``versions``: those with the rows that come back."""
    unique = list(dict.fromkeys(folders))
    return [
        StreamedTable(
            name,
            location,
            versions.get((folder, name)),
            # a former folder may have been removed for good
            has_rows=folder == unique[0] and has_recorded_rows(home, folder, name),
        )
        for folder in unique
        for name, location in home.streamed_locations(folder).items()
    ]


def _whole_path(path: Path) -> tuple[BatchRange, ...]:
    return tuple(BatchRange(segment.lineage, BEFORE_THE_FIRST, segment.until) for segment in path)


def _condition(batches: BatchRange) -> str:
    until = "" if batches.until is None else f" AND batch_id <= {batches.until}"
    return f"(lineage = {_quote(batches.lineage)} AND batch_id > {batches.after}{until})"


def _quote(lineage: str) -> str:
    return f"'{check_identifier('lineage', lineage)}'"
