"""The rows that leave a stream's tables, and those that come back, so that they hold exactly the rows on one path.

Decided from the records of the lineages alone. An earlier command may have deleted rows that are on the path again:
these come back from the table version that the savepoint's manifest names. They are counted from Delta's logs and
files, without Spark: a file whose rows have one lineage, batch and day by Delta's statistics, which are exact. Of any
other that may have such rows the three columns are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, NamedTuple

from sessionizer.errors import DataAway, RowsGone
from sessionizer.home.data_files import several_at_a_time
from sessionizer.home.names import check_identifier, is_identifier
from sessionizer.home.roots import folder_at
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.kept_spec import SinkFolder
from sessionizer.state.lineages.origin import BEFORE_THE_FIRST, NO_ROWS, BatchRange, Path, batches_only_on
from sessionizer.state.lineages.table_changes import has_recorded_rows, is_of_operation, writer_in
from sessionizer.state.lineages.table_snapshot import (
    SparkNeeded,
    TableFile,
    TableSnapshot,
    VersionGone,
    left_to_spark,
    read_snapshot,
)

_COLUMNS: Final = ("lineage", "batch_id", "date")
_CUT_AT: Final = 32
"""Length to which Delta cuts a text in its statistics."""


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
        ended = [each for each in self.path if each.until is not None]
        ends = [f"(lineage = {_quote(each.lineage)} AND batch_id > {each.until})" for each in ended]
        listed = ", ".join(map(_quote, self.others))
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
        """Return the changes of tables with transactions of ``wrote``, which may be of unknown lineages."""
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


@dataclass(frozen=True, slots=True)
class StreamedTable:
    """A table of batches. ``version``: with the rows that come back. ``has_rows``: a lineage noted some."""

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


class _Rows(NamedTuple):
    """A number of rows of one batch and day (ISO)."""

    lineage: str
    batch_id: int
    day: str
    number: int


def count_changes_in_files(stream: str, tables: Iterable[StreamedTable], changes: RowChanges) -> list[RowsOfTable]:
    """Count rows that leave and come back, as Spark would. Raises RowsGone, DataAway, SparkNeeded."""
    with left_to_spark():
        found = [(table, read_snapshot(folder_at(table.location))) for table in tables]
    changes = changes.add_writers(name for _, snapshot in found if snapshot for name in snapshot.transactions)
    return [_count_table(stream, table, snapshot, changes) for table, snapshot in found]


def _count_table(stream: str, table: StreamedTable, now: TableSnapshot | None, changes: RowChanges) -> RowsOfTable:
    if now is None:
        require_none_missing(stream, table, changes)
        return RowsOfTable(table.name, table.location, {})
    try:
        with left_to_spark():
            leaving = _count_days(_rows_in(now, changes.deleted))
            return RowsOfTable(table.name, table.location, leaving, _count_days(_coming_back(table, now, changes)))
    except VersionGone as error:
        raise RowsGone(stream, table.location, table.version or 0, str(error)) from error


def _coming_back(table: StreamedTable, now: TableSnapshot, changes: RowChanges) -> Iterator[_Rows]:
    """Yield the rows of the missing batches as the table had them, without batches of which it has rows now."""
    if not changes.missing or table.version is None:
        return
    then = read_snapshot(folder_at(table.location), table.version)
    if then is None:
        return
    there = {(rows.lineage, rows.batch_id) for rows in _rows_in(now, changes.missing)}
    try:
        yield from (rows for rows in _rows_in(then, changes.missing) if (rows.lineage, rows.batch_id) not in there)
    except FileNotFoundError as error:
        raise VersionGone(f"its file {error} is gone") from error


def _rows_in(snapshot: TableSnapshot, ranges: Sequence[BatchRange]) -> list[_Rows]:
    """Count the rows of ``ranges`` by batch and day. Raises FileNotFoundError for a file that is gone."""
    files = [file for file in snapshot.files if any(_may_have(file, each) for each in ranges)]
    if gone := snapshot.first_gone(files):
        raise FileNotFoundError(gone)
    known = [(file, _told_by_statistics(file)) for file in files]
    read = several_at_a_time(_read_rows, [file for file, rows in known if rows is None])
    found = chain((rows for _, rows in known if rows is not None), chain.from_iterable(read))
    return [rows for rows in found if any(each.lineage == rows.lineage and each.has(rows.batch_id) for each in ranges)]


def _may_have(file: TableFile, batches: BatchRange) -> bool:
    """Whether the file may have rows of ``batches``, by Delta's statistics."""
    (least, greatest), (oldest, newest) = file.extent("lineage"), file.extent("batch_id")
    if least is None or greatest is None or oldest is None or newest is None:
        return True
    is_within = least <= batches.lineage <= greatest
    return bool(is_within and newest > batches.after and (batches.until is None or oldest <= batches.until))


def _told_by_statistics(file: TableFile) -> _Rows | None:
    """Return the rows of a file if all are of one lineage, batch and day, else None."""
    lineage, batch_id, day = map(file.single_value, _COLUMNS)
    count = file.stats.get("numRecords")
    if lineage is None or batch_id is None or day is None or count is None or len(lineage) >= _CUT_AT:
        return None
    return _Rows(lineage, batch_id, day, count)


def _read_rows(file: TableFile) -> list[_Rows]:
    """Count the rows of a file by its columns. Raises SparkNeeded if one has no lineage, batch or day."""
    import numpy as np  # noqa: PLC0415  the driver has it, Airflow need not

    found = file.read(_COLUMNS)
    columns = [found.column(name).combine_chunks().dictionary_encode() for name in _COLUMNS]
    if any(column.null_count for column in columns):
        raise SparkNeeded("a row without its lineage")
    sizes = tuple(len(column.dictionary) for column in columns)
    if not found.num_rows:
        return []
    # pyarrow's own grouping imports pandas, which takes longer than the rest of a plan
    codes, counts = np.unique(np.ravel_multi_index([each.indices for each in columns], sizes), return_counts=True)
    lineages, batches, days = (
        [values[place] for place in places]
        for values, places in zip(
            (column.dictionary.to_pylist() for column in columns), np.unravel_index(codes, sizes), strict=True
        )
    )
    rows = zip(lineages, batches, days, counts.tolist(), strict=True)
    return [_Rows(lineage, batch_id, day.isoformat(), count) for lineage, batch_id, day, count in rows]


def _count_days(found: Iterable[_Rows]) -> Mapping[str, int]:
    days: Counter[str] = Counter()
    for rows in found:
        days[rows.day] += rows.number
    return dict(sorted(days.items()))
