"""The Delta tables of a stream: their names and their documented columns, defined once.

Whether an existing table can take a shape's rows, and which columns it lacks, is decided by types. Nothing is read.
Delta writes rows by name, whatever the order of columns and of the fields of a struct, and fills in null for a column
that a row does not have. It never takes another type, unless the table's owner has turned on type widening, which many
readers of Delta tables do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from sessionizer.control.history.sample import PHASES
from sessionizer.core.definition.outcome import CloseReason
from sessionizer.core.wire import schema
from sessionizer.core.wire.alignment import Unfit, unfit, unite_schemas
from sessionizer.errors import InvalidSpec
from sessionizer.home.names import LATE_EVENTS, OPEN_SESSIONS, QUARANTINE, SESSIONS, SESSIONS_DAILY, STREAM_HISTORY
from sessionizer.spark.ingest.guard import arrow_fields, sql_type
from sessionizer.stream_spec.document.stream import StreamSpec

_IDS: Final = ("session_id", "events.list.element.event_id")
_INSTANTS: Final = ("started_at", "ended_at", "events.list.element.event_time")
SESSIONS_PROPERTIES: Final = {
    # a dictionary of values that never repeat is built for nothing (docs/develop/tuning.md)
    **{f"parquet.enable.dictionary#{name}": "false" for name in (*_IDS, *_INSTANTS)},
    # the least and the greatest id exclude no page
    **{f"parquet.column.statistics.enabled#{name}": "false" for name in _IDS},
    # no reader uses the sizes of values and their depths, which are counted value by value
    "parquet.size.statistics.enabled": "false",
    # the others have all their values in every file
    "delta.dataSkippingStatsColumns": "date,started_at,ended_at,lineage,batch_id",
}
NOBODY_IN_LOG: Final = {"delta.dataSkippingStatsColumns": "date,lineage,batch_id"}
"""Table property that keeps keys and texts out of the statistics in a table's log, which an erasure cannot change."""
_ONCE: Final = ("session_id", "key", "started_at", "last_event_at", "due_at", "first_event_id")
OPEN_PROPERTIES: Final = {
    # as those of sessions. Columns of one row for each key repeat nothing
    **{f"parquet.enable.dictionary#{name}": "false" for name in _ONCE},
    "parquet.size.statistics.enabled": "false",
    **NOBODY_IN_LOG,
}


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table's columns, and ``properties`` at its creation. ``given_by``: the block of a spec that gives a column."""

    name: str
    comment: str
    columns: T.StructType
    properties: Mapping[str, str] = field(default_factory=dict)
    given_by: Mapping[str, str] = field(default_factory=dict)


def _column(name: str, kind: T.DataType, comment: str) -> T.StructField:
    return T.StructField(name, kind, metadata={"comment": comment})


def _origin(at: str, done: str) -> list[T.StructField]:
    return [
        _column("lineage", T.StringType(), "id of the checkpoint's life that wrote the row"),
        _column("batch_id", T.LongType(), "micro-batch of that lineage"),
        _column(at, T.TimestampType(), f"wall clock when the batch {done} it, UTC"),
    ]


def sessions_shape(spec: StreamSpec, payload: schema.Payload, measures: T.StructType) -> TableShape:
    """Return the shape of the table ``sessions``."""
    columns = [
        _column("session_id", T.StringType(), "stable across replays: hash of key, first instant and first event id"),
        _column("key", T.StringType(), "whose session it is"),
        _column("client", T.StringType(), "client of the first event"),
        _column("date", T.DateType(), "UTC day of started_at. The table is clustered by it"),
        _column("started_at", T.TimestampType(), "clock of the first event, UTC"),
        _column("ended_at", T.TimestampType(), "clock of the last event, UTC"),
        _column("duration_ms", T.LongType(), "ended_at - started_at, ms"),
        _column("event_count", T.IntegerType(), "events in the session"),
        _column("close_reason", T.StringType(), ", ".join(CloseReason)),
        *(_column(field.name, field.dataType, spec.measures[field.name]) for field in measures),
    ]
    if spec.sink.keep_events:
        events = from_arrow_type(schema.session_schema(payload).field("events").type, prefer_timestamp_ntz=False)
        columns.append(_column("events", events, "the session's events in order"))
    columns += _origin("emitted_at", "emitted")
    given_by = dict.fromkeys(measures.names, "measures")
    return TableShape(SESSIONS, "finished sessions, each once", T.StructType(columns), SESSIONS_PROPERTIES, given_by)


def open_sessions_shape(sessions: TableShape) -> TableShape:
    """Return the shape of the table ``open_sessions``, with the measures of ``sessions``."""
    columns = [
        _column("session_id", T.StringType(), "its id so far, which is final if settled"),
        _column("settled", T.BooleanType(), "whether no later event can become the first one"),
        _column("key", T.StringType(), "whose session it is"),
        _column("client", T.StringType(), "client of the first event"),
        _column("date", T.DateType(), "UTC day of started_at. The table is clustered by it"),
        _column("started_at", T.TimestampType(), "clock of the first event, UTC"),
        _column("last_event_at", T.TimestampType(), "clock of the last event so far, UTC"),
        _column("due_at", T.TimestampType(), "clock at which it ends without more events, UTC"),
        _column("event_count", T.IntegerType(), "events so far"),
        _column("first_event_id", T.StringType(), "id of the first event"),
        *(column for column in sessions.columns if column.name in sessions.given_by),
        _column("lineage", T.StringType(), "lineage that has it open"),
        _column("batch_id", T.LongType(), "batch of that lineage after which it was open"),
        _column("as_of", T.TimestampType(), "wall clock of that batch, UTC"),
    ]
    comment = "open sessions after one batch"
    return TableShape(OPEN_SESSIONS, comment, T.StructType(columns), OPEN_PROPERTIES, sessions.given_by)


def quarantine_shape() -> TableShape:
    """Return the shape of the table ``quarantine``."""
    columns = [
        _column("reason", T.StringType(), "what is wrong with the row"),
        _column("raw", T.StringType(), "the row as it came (bytes that are no UTF-8 replaced); the event as JSON for "
                                     "conflicting_duplicate and where the source is not text; the error for "
                                     "unreadable_file"),
        _column("source_position", T.StringType(), "file, or topic-partition-offset"),
        _column("date", T.DateType(), "UTC day of quarantined_at. The table is clustered by it"),
        *_origin("quarantined_at", "refused"),
    ]  # fmt: skip
    comment = "rows that never reached a session, with the reason"
    return TableShape(QUARANTINE, comment, T.StructType(columns), NOBODY_IN_LOG)


def late_events_shape(payload: T.StructType) -> TableShape:
    """Return the shape of the table ``late_events``."""
    columns = [
        _column("key", T.StringType(), "whose event it is"),
        _column("client", T.StringType(), "its client"),
        _column("event_time", T.TimestampType(), "when it happened, UTC: at or before the watermark of its batch"),
        _column("event_id", T.StringType(), "its id"),
        _column("closes", T.BooleanType(), "whether it would have closed its session"),
        _column("timeout_ms", T.LongType(), "its own gap timeout, ms, if it brought one"),
        *payload,
        _column("date", T.DateType(), "UTC day of event_time. The table is clustered by it"),
        *_origin("noticed_at", "refused"),
    ]
    given_by = dict.fromkeys(payload.names, "mapping.payload")
    comment = "valid events that came behind the watermark"
    return TableShape(LATE_EVENTS, comment, T.StructType(columns), NOBODY_IN_LOG, given_by)


def sessions_daily_shape(totals: T.StructType) -> TableShape:
    """Return the shape of the table ``sessions_daily``. ``totals`` are the sums of the numeric measures."""
    columns = [
        _column("date", T.DateType(), "UTC day on which the sessions started. The table is clustered by it"),
        _column("client", T.StringType(), "client of the sessions, null for those without one"),
        _column("sessions", T.LongType(), "finished sessions"),
        _column("events", T.LongType(), "events in them"),
        _column("average_duration_ms", T.DoubleType(), "mean of duration_ms"),
        _column("median_duration_ms", T.DoubleType(), "exact median of duration_ms"),
        *(
            _column(f"ended_by_{reason}", T.LongType(), f"sessions with close_reason {reason}")
            for reason in CloseReason
        ),
        *(_column(field.name, field.dataType, "sum over the sessions") for field in totals),
    ]
    comment = "finished sessions by day and client"
    return TableShape(SESSIONS_DAILY, comment, T.StructType(columns), {"delta.dataSkippingStatsColumns": "date"})


HISTORY_FIGURES: Final = {
    "batches": "committed batches",
    "rows": "rows read from the source",
    "batch_ms": "time of the batches, ms",
    "longest_ms": "longest batch, ms",
    **{f"{phase}_ms": f"time of the batches in the phase {phase}, ms" for phase in PHASES},
    "waited_ms": "time between batches, ms",
    "lag_ms": "distance of the watermark behind the clock, ms",
    "source_lag": "events behind, if the source tells it",
    "open": "open sessions after the last batch",
    "state_bytes": "size of the state, bytes",
    "sessions": "closed sessions",
    **{f"ended_by_{reason}": f"sessions with close_reason {reason}" for reason in CloseReason},
    "late": "late events",
    "refused": "quarantined rows",
    "group": "key group with the most open bytes",
    "group_bytes": "its decoded open events, bytes",
    "group_p99_bytes": "99 of 100 key groups hold at most so many bytes",
    "key_events": "events of the largest open session",
    "key_p99_events": "99 of 100 open sessions have at most so many events",
}
"""Figures of a minute in the table ``stream_history``. Keys are not among them, because the table is kept for ever."""


def stream_history_shape() -> TableShape:
    """Return the shape of the table ``stream_history``."""
    columns = [
        _column("date", T.DateType(), "UTC day of at. The table is clustered by it"),
        _column("at", T.TimestampType(), "begin of the minute, or moment of the event, UTC"),
        _column("kind", T.StringType(), "minute, or the kind of the event: start, stop, crash, savepoint, command, …"),
        _column("lineage", T.StringType(), "lineage of the last batch, or of the event"),
        _column("batch_id", T.LongType(), "last batch of the minute, or the batch of the event"),
        *(_column(name, T.LongType(), comment) for name, comment in HISTORY_FIGURES.items()),
        _column("watermark", T.TimestampType(), "watermark after the last batch, UTC"),
        _column("straggler", T.StringType(), "kind of the straggler: key_group, key or partition"),
        _column("what", T.StringType(), "the event in a word: a verb, a cause, a verdict, a kind of alert"),
        _column("text", T.StringType(), "details of the event"),
        _column("driver", T.StringType(), "driver of the event"),
        _column("savepoint", T.StringType(), "savepoint of the event"),
        _column("approved_by", T.StringType(), "user who approved the command"),
    ]
    return TableShape(STREAM_HISTORY, "what the stream did, by the minute, and its events", T.StructType(columns))


def require_fit(shape: TableShape, existing: T.StructType, location: str, may_widen: Callable[[], bool]) -> None:
    """Raise InvalidSpec for a column of ``shape`` whose type the table cannot take, if need be by a wider one."""
    for column in shape.columns:
        if column.name not in existing.names:
            continue
        was, now = (arrow_fields(T.StructType([one]))[0].type for one in (existing[column.name], column))
        never, unless_widened = unfit(was, now), unfit(now, was)
        if never is not None:
            raise _refusal(shape, column, never, location, never=True)
        if unless_widened is not None and not may_widen():
            path, wider, narrower = unless_widened
            raise _refusal(shape, column, Unfit(path, narrower, wider), location, never=False)


def _refusal(shape: TableShape, column: T.StructField, found: Unfit, location: str, *, never: bool) -> InvalidSpec:
    path = found.path
    if column.name == "events" and len(path) > 1:  # of the struct that is an element of it
        field, path = f"mapping.payload.{path[1]}", path[2:]
    else:
        field = f"{shape.given_by.get(column.name, f'sink.{shape.name}')}.{column.name}"
    inside = f" at {'.'.join(path)}" if path else ""
    allowed = f"{sql_type(found.before)}{inside}, the type in the table {shape.name}, or give another name or sink.path"
    if not never:
        allowed += f". If all readers know type widening, run `alter table delta.`{location}` set tblproperties "
        allowed += "('delta.enableTypeWidening' = 'true')`, so that the table takes the wider type"
    return InvalidSpec(field, sql_type(found.now), allowed)


def lacks(existing: T.StructType, shape: TableShape) -> bool:
    """Whether the table must get a column, a field of a struct or a wider type before it takes rows of ``shape``."""
    shared = [existing[column.name] for column in shape.columns if column.name in existing.names]
    has = pa.schema(arrow_fields(T.StructType(shared)))
    both = unite_schemas(has, pa.schema(arrow_fields(shape.columns)))
    return any(name not in has.names or not has.field(name).type.equals(both.field(name).type) for name in both.names)
