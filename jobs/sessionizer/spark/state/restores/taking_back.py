"""Takes rows back out of a stream's tables: those that were written after a batch, each table in one commit.

Delta's own ``DELETE``: readers see all of the rows or none, and the table's history keeps the versions with them. A
second call finds nothing to remove.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from sessionizer.errors import RowsLeft
from sessionizer.spark.sinks.tables import table_exists
from sessionizer.spark.temporary_settings import temporary_settings
from sessionizer.state.restores.later_rows import RowsOfTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from sessionizer.control.operation import Operation
    from sessionizer.state.restores.later_rows import LaterRows

_NOTE: Final = "spark.databricks.delta.commitInfo.userMetadata"


def later_rows_of(spark: SparkSession, locations: Mapping[str, str], later: LaterRows) -> list[RowsOfTable]:
    """How many rows each table has that were written later; ``locations``: table name to path. Reads only."""
    return [_counted(spark, name, location, later) for name, location in locations.items()]


def _counted(spark: SparkSession, name: str, location: str, later: LaterRows) -> RowsOfTable:
    if not table_exists(spark, name, location):
        return RowsOfTable(name, location, {})
    found = spark.read.format("delta").load(location).where(later.condition)
    days = found.groupBy(F.col("date").cast("string").alias("day")).count().collect()
    return RowsOfTable(name, location, {row["day"]: row["count"] for row in sorted(days)})


def take_all_back(
    spark: SparkSession,
    operation: Operation,
    locations: Mapping[str, str],
    later: LaterRows,
    permit: Callable[[], None],
    say: Callable[[str], None],
) -> None:
    """Remove the rows from every table, as a step of ``operation``, which notes how many and of which days.

    A second run keeps what the first one noted. Raises RowsLeft where somebody else writes them anew.
    """
    found = later_rows_of(spark, locations, later)
    counts = ", ".join(f"{table.table} {table.rows}" for table in found)
    days = " ".join(sorted({day for table in found for day in table.by_day}))
    operation.note_rows(counts, days)
    record = operation.record
    for table in found:
        permit()
        if table.rows:
            take_back(spark, table.table, table.location, later, f"{record.verb} {record.id}")
            say(f"{table.table}: {table.rows:,} rows taken back")
    left = [table for table in later_rows_of(spark, locations, later) if table.rows]
    if left:
        raise RowsLeft(record.stream, left[0].location, left[0].rows)


def take_back(spark: SparkSession, name: str, location: str, later: LaterRows, note: str) -> None:
    """Remove the rows from one table. ``note`` stands with the commit in the table's history."""
    if not table_exists(spark, name, location):
        return
    with temporary_settings(spark, {_NOTE: note}):
        DeltaTable.forPath(spark, location).delete(later.condition)
