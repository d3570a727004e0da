"""Takes rows back out of a stream's tables: those that were written after a batch, each table in one commit.

Delta's own ``DELETE``: readers see all of the rows or none, and the table's history keeps the versions with them. A
second call finds nothing to remove.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from sessionizer.spark.sinks.tables import table_exists
from sessionizer.state.restores.later_rows import RowsOfTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

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


def take_back(spark: SparkSession, name: str, location: str, later: LaterRows, note: str) -> None:
    """Remove the rows from one table. ``note`` stands with the commit in the table's history."""
    if not table_exists(spark, name, location):
        return
    spark.conf.set(_NOTE, note)
    try:
        DeltaTable.forPath(spark, location).delete(later.condition)
    finally:
        spark.conf.unset(_NOTE)
