"""Counts of the rows that leave a stream's tables and come back, from Delta's logs and files, without Spark.

A file whose rows have one lineage, batch and day is counted by Delta's statistics, which are exact. Of any other that
may have such rows the three columns are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from sessionizer.errors import RowsGone
from sessionizer.home.data_files import several_at_a_time
from sessionizer.home.roots import folder_at
from sessionizer.state.lineages.origin import BatchRange
from sessionizer.state.lineages.table_snapshot import (
    SparkNeeded,
    TableFile,
    TableSnapshot,
    VersionGone,
    left_to_spark,
    read_snapshot,
)
from sessionizer.state.restores.row_changes import (
    RowChanges,
    RowsOfTable,
    StreamedTable,
    require_none_missing,
)

_COLUMNS: Final = ("lineage", "batch_id", "date")
_CUT_AT: Final = 32
"""Length to which Delta cuts a text in its statistics."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """A number of rows of one batch and day (ISO)."""

    lineage: str
    batch_id: int
    day: str
    count: int


def count_changes_in_files(stream: str, tables: Iterable[StreamedTable], changes: RowChanges) -> list[RowsOfTable]:
    """Count the rows that leave each table and that come back, as Spark would.

    Raises RowsGone where rows that should come back cannot be read any more, DataAway where a table with rows is not
    there, and SparkNeeded.
    """
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
    then = (
        read_snapshot(folder_at(table.location), table.version)
        if changes.missing and table.version is not None
        else None
    )
    if then is None:
        return
    there = {(rows.lineage, rows.batch_id) for rows in _rows_in(now, changes.missing)}
    try:
        rows = _rows_in(then, changes.missing)
    except FileNotFoundError as error:
        raise VersionGone(f"its file {error} is gone") from error
    yield from (each for each in rows if (each.lineage, each.batch_id) not in there)


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
        days[rows.day] += rows.count
    return dict(sorted(days.items()))
