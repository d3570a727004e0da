"""``stream_history``: the history of a stream as a Delta table, for SQL. Complete hours are appended, each once.

Delta's transaction names the newest hour that the table has, so a run that is killed or repeated adds nothing twice.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sessionizer.control.history.files import KEPT_MS, read_history
from sessionizer.control.history.sample import PHASES
from sessionizer.control.records.driver_records import YEAR_9999_MS
from sessionizer.core.definition.outcome import CloseReason
from sessionizer.home.clock import HOUR, MINUTE
from sessionizer.spark.internals.delta_append import Transaction, append_once
from sessionizer.spark.internals.delta_log import last_version
from sessionizer.spark.sinks.table_shapes import HISTORY_FIGURES, stream_history_shape
from sessionizer.spark.sinks.tables import ensure_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sessionizer.control.history.mark import Mark
    from sessionizer.control.history.sample import Sample
    from sessionizer.home.json_record import JsonObject
    from sessionizer.home.stream_home import StreamHome

APPLICATION: Final = "stream_history"
SETTLED_AFTER_MS: Final = 5 * MINUTE
"""Milliseconds after the end of an hour until its file is complete. A driver writes its figures every 15 seconds."""
MINUTE_ROW: Final = "minute"
_INSTANT: Final = pa.timestamp("us", tz="UTC")
_TIMES: Final = frozenset({"at", "watermark"})


def complete_hours(newest: int, now_ms: int) -> tuple[int, int]:
    """Return the begin and the end (epoch ms) of the complete hours after the hour ``newest``, at most of 7 days.

    Hours count from 1970. They are equal if there are none.
    """
    end = (now_ms - SETTLED_AFTER_MS) // HOUR
    begin = max(newest + 1, (now_ms - KEPT_MS) // HOUR)
    return min(begin, end) * HOUR, end * HOUR


def minute_row(sample: Sample) -> JsonObject:
    """Return the row of a minute."""
    split = {f"{phase}_ms": sample.phases.get(phase, 0) for phase in PHASES}
    split |= {f"ended_by_{reason}": sample.closed.get(reason, 0) for reason in CloseReason}
    figures = {name: split[name] if name in split else getattr(sample, name) for name in HISTORY_FIGURES}
    return {
        **_begin(sample.at, MINUTE_ROW, sample.lineage, sample.batch_id),
        **figures,
        "watermark": _moment(sample.watermark_ms),
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
    moment = _moment(at)
    assert moment is not None  # noqa: S101  a row has its moment
    return {"date": moment.date(), "at": moment, "kind": kind, "lineage": lineage, "batch_id": batch_id}


def _moment(ms: int | None) -> datetime | None:
    # the watermark of a drained stream is beyond the calendar
    return None if ms is None or ms >= YEAR_9999_MS else datetime.fromtimestamp(ms / 1000, UTC)


def append_history(spark: SparkSession, home: StreamHome, location: str, now_ms: int) -> int:
    """Append the complete hours that the table at ``location`` lacks. Return the number of rows.

    Raises InvalidSpec, UnwritablePath, StoreUnreachable, OSError.
    """
    ensure_table(spark, stream_history_shape(), location)
    begin, end = complete_hours(last_version(spark, location, APPLICATION), now_ms)
    found = read_history(home, begin, end - 1)
    rows = [*map(minute_row, found.samples), *map(mark_row, found.marks)]
    if not rows:
        return 0
    frame = spark.createDataFrame(_table(rows))
    append_once(frame, location, Transaction(APPLICATION, end // HOUR - 1), lambda: None)
    return len(rows)


def _table(rows: list[JsonObject]) -> pa.Table:
    """Return the rows in the columns of the table. Figures that a row lacks are null."""
    schema = pa.schema([pa.field(column.name, _arrow_type(column.name)) for column in stream_history_shape().columns])
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["at"]), schema=schema)


def _arrow_type(name: str) -> Any:  # noqa: ANN401  as Arrow has it
    if name in _TIMES:
        return _INSTANT
    if name == "date":
        return pa.date32()
    return pa.int64() if name in HISTORY_FIGURES or name == "batch_id" else pa.string()
