"""``sessions_daily``: the sessions by day and client, kept up to date for the days that new sessions fell on.

A Delta stream over ``sessions`` names these days. Their content is computed anew from the table itself. So a run that
is killed, repeated or overtaken by new sessions ends at the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from delta.tables import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StructType

from sessionizer.core.definition.outcome import CloseReason
from sessionizer.home.data_files import data_exists, remove_tree
from sessionizer.home.roots import uri_of
from sessionizer.spark.failures.retries import retry_conflicts
from sessionizer.spark.sinks.table_shapes import sessions_daily_shape
from sessionizer.spark.sinks.tables import ensure_table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from pyspark.sql import Column, DataFrame, SparkSession

    from sessionizer.home.roots import DataPath

TOTAL: Final = "total_"
"""Prefix of the columns that sum up a measure."""

_NEED_REBUILD: Final = (
    # rows were taken back (a restore), the table was made anew, or its log no longer reaches back to the last run
    "DELTA_SOURCE_IGNORE_DELETE",
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    "DELTA_SCHEMA_CHANGED",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "DELTA_FILE_NOT_FOUND",
    # a compaction merged and deleted files that no report had read
    "FAILED_READ_FILE.FILE_NOT_EXIST",
)
_FILES_PER_BATCH: Final = "100000"


@dataclass(frozen=True, slots=True)
class RefreshedDays:
    """The days that were computed anew, the number of their rows now, and whether all days were."""

    dates: tuple[date, ...]
    rows: int
    rebuilt: bool


@dataclass(frozen=True, slots=True)
class DailyReport:
    """A report. ``sessions``, ``daily``: locations of the tables. ``measures``: names of the stream's measures.

    ``bookmarks``: the folder with the position up to which ``sessions`` was read.
    """

    spark: SparkSession
    sessions: str
    daily: str
    measures: tuple[str, ...]
    bookmarks: DataPath

    def refresh(self) -> RefreshedDays | None:
        """Bring ``daily`` up to date, None while there are no ``sessions``. Raises UnwritablePath, InvalidSpec."""
        if not DeltaTable.isDeltaTable(self.spark, self.sessions):
            return None
        ensure_table(self.spark, sessions_daily_shape(self._totals()), self.daily)
        bookmark = self.bookmarks / f"sessions_daily-{self._id_of_sessions()}"
        rebuilt = not data_exists(bookmark)
        try:
            dates = self._follow(bookmark)
        except StreamingQueryException as error:
            if not any(sign in str(error) for sign in _NEED_REBUILD):
                raise
            remove_tree(bookmark)
            dates, rebuilt = self._follow(bookmark), True
        return RefreshedDays(tuple(sorted(dates)), self._rows_of(dates), rebuilt)

    def _follow(self, bookmark: DataPath) -> set[date]:
        """Compute every day anew that sessions came to since the bookmark, and return these days."""
        touched: set[date] = set()

        def rewrite(new: DataFrame, batch_id: int) -> None:
            dates = {row.date for row in new.select("date").distinct().collect()}
            self._rewrite(dates, everything=batch_id == 0)
            touched.update(dates)

        new = self.spark.readStream.format("delta").option("maxFilesPerTrigger", _FILES_PER_BATCH).load(self.sessions)
        writer = new.select("date").writeStream.foreachBatch(rewrite).trigger(availableNow=True)
        writer.option("checkpointLocation", uri_of(bookmark)).start().awaitTermination()
        return touched

    def _rewrite(self, dates: set[date], *, everything: bool) -> None:
        """Replace ``dates``. With ``everything`` the table holds nothing else afterwards."""
        if not dates:
            return
        sessions = self.spark.read.format("delta").load(self.sessions).where(_is_one_of(dates))
        writer = self._summarize_days(sessions).write.format("delta").mode("overwrite").option("mergeSchema", "true")
        if not everything:
            listed = ", ".join(f"'{day.isoformat()}'" for day in sorted(dates))
            writer = writer.option("replaceWhere", f"date in ({listed})")
        retry_conflicts(lambda: writer.save(self.daily))  # a compaction may replace the same files

    def _summarize_days(self, sessions: DataFrame) -> DataFrame:
        reasons = [F.count_if(F.col("close_reason") == reason).alias(f"ended_by_{reason}") for reason in CloseReason]
        return sessions.groupBy("date", "client").agg(
            F.count("*").alias("sessions"),
            F.sum("event_count").alias("events"),
            F.avg("duration_ms").alias("average_duration_ms"),
            F.median("duration_ms").alias("median_duration_ms"),
            *reasons,
            *(F.sum(name).alias(TOTAL + name) for name in _numeric(sessions.schema, self.measures)),
        )

    def _totals(self) -> StructType:
        columns = self._summarize_days(self.spark.read.format("delta").load(self.sessions)).schema
        return StructType([field for field in columns if field.name.startswith(TOTAL)])

    def _id_of_sessions(self) -> str:
        detail = DeltaTable.forPath(self.spark, self.sessions).detail().select("id").first()
        assert detail is not None  # noqa: S101  a table has one
        return str(detail.id)

    def _rows_of(self, dates: set[date]) -> int:
        return self.spark.read.format("delta").load(self.daily).where(_is_one_of(dates)).count() if dates else 0


def _numeric(columns: StructType, measures: tuple[str, ...]) -> list[str]:
    return [field.name for field in columns if field.name in measures and isinstance(field.dataType, NumericType)]


def _is_one_of(dates: Iterable[date]) -> Column:
    return F.col("date").isin(sorted(dates))
