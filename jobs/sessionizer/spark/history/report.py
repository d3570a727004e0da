"""Tables made from a stream's results: sessions_daily for the days that new sessions touch, and stream_history for SQL.

``sessions_daily``: the sessions by day and client. A Delta stream over ``sessions`` names these days. Their content is
computed anew from the table itself. So a run that is killed, repeated or overtaken by new sessions ends at the same
rows.

``stream_history``: the history of a stream as a Delta table. Complete hours are appended, each once. Delta's
transaction names the newest hour that the table has, so a run that is killed or repeated adds nothing twice.
"""

import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StructType

from sessionizer.control.history.files import KEPT_MS, Mark, read_history, read_marks
from sessionizer.control.history.sample import PHASES, Sample
from sessionizer.control.records.driver_records import YEAR_9999_MS
from sessionizer.core.definition.outcome import CloseReason
from sessionizer.home.clock import HOUR, MINUTE
from sessionizer.home.data_files import data_exists, remove_tree
from sessionizer.home.json_record import JsonObject
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.failures.query_failure import retry_conflicts
from sessionizer.spark.ingest.guard import arrow_fields
from sessionizer.spark.internals.delta_append import Transaction, write_once
from sessionizer.spark.internals.delta_log import last_version, table_id
from sessionizer.spark.sinks.table_shapes import HISTORY_FIGURES, sessions_daily_shape, stream_history_shape
from sessionizer.spark.sinks.tables import ensure_table

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


@dataclass(frozen=True, slots=True)
class RefreshedDays:
    """The days that were computed anew, the number of their rows now, and whether all days were."""

    dates: tuple[date, ...]
    rows: int
    rebuilt: bool


@dataclass(frozen=True, slots=True)
class DailyReport:
    """A report. ``sessions``, ``daily``: locations of the tables. ``measures``: names of the stream's measures.

    ``bookmarks``: the folder with the position up to which ``sessions`` was read. ``kept_from``: the day (UTC) before
    which sessions leave. Days before it stay as they are.
    """

    spark: SparkSession
    sessions: str
    daily: str
    measures: tuple[str, ...]
    bookmarks: DataPath
    kept_from: date | None = None

    def refresh(self) -> RefreshedDays | None:
        """Bring ``daily`` up to date, None while there are no ``sessions``. Raises UnwritablePath, InvalidSpec."""
        if not DeltaTable.isDeltaTable(self.spark, self.sessions):
            return None
        columns = self._summarize_days(self.spark.read.format("delta").load(self.sessions)).schema
        totals = StructType([field for field in columns if field.name.startswith(TOTAL)])
        ensure_table(self.spark, sessions_daily_shape(totals), self.daily)
        bookmark = self.bookmarks / f"sessions_daily-{table_id(self.spark, self.sessions)}"
        rebuilt = not data_exists(bookmark)
        try:
            dates = self._follow(bookmark)
        except StreamingQueryException as error:
            if not any(sign in str(error) for sign in _NEED_REBUILD):
                raise
            remove_tree(bookmark)
            dates, rebuilt = self._follow(bookmark), True
        if rebuilt and not dates:  # a restore deleted all sessions, and no batch has replaced the days
            DeltaTable.forPath(self.spark, self.daily).delete(self._still_kept())
        days = sorted(dates)
        rows = self.spark.read.format("delta").load(self.daily).where(F.col("date").isin(days)).count() if days else 0
        return RefreshedDays(tuple(days), rows, rebuilt)

    def _follow(self, bookmark: DataPath) -> set[date]:
        """Compute every day anew that sessions came to since the bookmark, and return these days."""
        touched: set[date] = set()

        def rewrite(new: DataFrame, batch_id: int) -> None:
            dates = {row.date for row in new.where(self._still_kept()).select("date").distinct().collect()}
            self._rewrite(dates, everything=batch_id == 0)
            touched.update(dates)

        new = self.spark.readStream.format("delta").option("maxFilesPerTrigger", "100000").load(self.sessions)
        writer = new.select("date").writeStream.foreachBatch(rewrite).trigger(availableNow=True)
        writer.option("checkpointLocation", uri_of(bookmark)).start().awaitTermination()
        return touched

    def _rewrite(self, dates: set[date], *, everything: bool) -> None:
        if not dates:
            return
        sessions = self.spark.read.format("delta").load(self.sessions).where(F.col("date").isin(sorted(dates)))
        writer = self._summarize_days(sessions).write.format("delta").mode("overwrite").option("mergeSchema", "true")
        listed = ", ".join(f"'{day.isoformat()}'" for day in sorted(dates))
        replaced = self._still_kept() if everything else f"date in ({listed})"
        if not everything or self.kept_from is not None:
            writer = writer.option("replaceWhere", replaced)
        retry_conflicts(lambda: writer.save(self.daily))  # a compaction may replace the same files

    def _still_kept(self) -> str:
        """Return the condition of the days that are computed from sessions."""
        return "true" if self.kept_from is None else f"date >= date'{self.kept_from.isoformat()}'"

    def _summarize_days(self, sessions: DataFrame) -> DataFrame:
        reasons = [F.count_if(F.col("close_reason") == reason).alias(f"ended_by_{reason}") for reason in CloseReason]
        measures = [field for field in sessions.schema if field.name in self.measures]
        numeric = [field.name for field in measures if isinstance(field.dataType, NumericType)]
        return sessions.groupBy("date", "client").agg(
            F.count("*").alias("sessions"),
            F.sum("event_count").alias("events"),
            F.avg("duration_ms").alias("average_duration_ms"),
            F.median("duration_ms").alias("median_duration_ms"),
            *reasons,
            *(F.sum(name).alias(TOTAL + name) for name in numeric),
        )


APPLICATION: Final = "stream_history"
SETTLED_AFTER_MS: Final = 5 * MINUTE
"""Milliseconds after the end of an hour until its file is complete. A driver writes its figures every 15 seconds."""


def complete_hours(newest: int, now_ms: int) -> tuple[int, int]:
    """Return begin and end (epoch ms) of the complete hours after the hour ``newest`` (since 1970), 7 days at most."""
    end = (now_ms - SETTLED_AFTER_MS) // HOUR
    begin = max(newest + 1, (now_ms - KEPT_MS) // HOUR)
    return min(begin, end) * HOUR, end * HOUR


def minute_row(sample: Sample) -> JsonObject:
    """Return the row of a minute."""
    split = {f"{phase}_ms": sample.phases.get(phase, 0) for phase in PHASES}
    split |= {f"ended_by_{reason}": sample.closed.get(reason, 0) for reason in CloseReason}
    figures = {name: split[name] if name in split else getattr(sample, name) for name in HISTORY_FIGURES}
    until = sample.watermark_ms  # that of a drained stream is beyond the calendar
    shown = None if until is None or until >= YEAR_9999_MS else datetime.fromtimestamp(until / 1000, UTC)
    return {
        **_begin(sample.at, "minute", sample.lineage, sample.batch_id),
        **figures,
        "watermark": shown,
        "straggler": sample.straggler.partition(":")[0] if sample.straggler else None,
    }


def mark_row(mark: Mark) -> JsonObject:
    """Return the row of an event."""
    return {
        **_begin(mark.at, str(mark.kind), mark.lineage, mark.batch_id),
        "what": mark.what,
        "text": mark.text,
        "driver": mark.uid,
        "savepoint": mark.savepoint,
        "approved_by": mark.by,
    }


def _begin(at: int, kind: str, lineage: str | None, batch_id: int | None) -> JsonObject:
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return {"date": moment.date(), "at": moment, "kind": kind, "lineage": lineage, "batch_id": batch_id}


def append_history(spark: SparkSession, home: StreamHome, location: str, now_ms: int) -> int:
    """Append the complete hours that the table lacks. Raises InvalidSpec, UnwritablePath, StoreUnreachable, OSError."""
    ensure_table(spark, stream_history_shape(), location)
    begin, end = complete_hours(last_version(spark, location, APPLICATION), now_ms)
    samples = read_history(home, begin, end - 1, with_marks=False).samples
    marks = read_marks(home, begin, end - 1, most=sys.maxsize)  # all, because no later run reads these hours
    if not (rows := [*map(minute_row, samples), *map(mark_row, marks)]):
        return 0
    schema = pa.schema(arrow_fields(stream_history_shape().columns))
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["at"]), schema=schema)
    write_once(spark.createDataFrame(table), location, Transaction(APPLICATION, end // HOUR - 1), lambda: None)
    return len(rows)
