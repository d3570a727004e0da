"""The operator's output, completed to rows of ``sessions``, ``late_events``, ``quarantine`` and ``open_sessions``.

Open events of a key group without its undecided duplicates, as rows that a migration can change.

A log compares duplicates within a key and in the order of their batches. A migration changes keys, so all that waits in
the log is decided before it. Its rows are then one batch, whatever group or batch they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sessionizer.core.definition.event import session_id
from sessionizer.core.key_group.append_or_merge import GroupRules
from sessionizer.core.key_group.contents import open_schema
from sessionizer.core.key_group.merging import Merged, instants, merge
from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import canonical_schema, read_typed_rows
from sessionizer.core.wire.codec import log_tables, mark_continued

INSTANT: Final = pa.timestamp("us", tz="UTC")
_MICROSECONDS: Final = 1000
"""Microseconds in a millisecond."""


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """The batch that wrote a row, and the wall clock ``at`` that moment."""

    lineage: str
    batch_id: int
    at: datetime

    @classmethod
    def now(cls, lineage: str, batch_id: int) -> RowOrigin:
        """Return the origin of the rows that ``batch_id`` writes now."""
        return cls(lineage, batch_id, datetime.now(UTC))

    def columns(self, count: int) -> list[pa.Array]:
        """Return the columns lineage, batch and moment, for ``count`` rows."""
        return [pa.repeat(value, count) for value in (self.lineage, self.batch_id, pa.scalar(self.at, INSTANT))]


NOWHERE: Final = RowOrigin("", 0, datetime.fromtimestamp(0, UTC))
"""The origin of rows of which only the types are read."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """The ``schema`` of a table's rows, and the function that makes their ``columns`` from a batch and its origin.

    Columns that need Spark (the measures) are not included.
    """

    schema: pa.Schema
    columns: Callable[[pa.RecordBatch, RowOrigin], list[pa.Array]]

    def rows(self, batch: pa.RecordBatch, origin: RowOrigin) -> pa.RecordBatch:
        """Return the rows of the table for ``batch``."""
        return pa.RecordBatch.from_arrays(self.columns(batch, origin), schema=self.schema)


def session_rows(payload: schema.Payload, *, keep_events: bool) -> RowShape:
    """Return the shape of rows of ``sessions``, from batches by ``schema.session_schema``."""
    fields = [
        pa.field("session_id", pa.string()),
        pa.field("key", pa.string()),
        pa.field("client", pa.string()),
        pa.field("date", pa.date32()),
        pa.field("started_at", INSTANT),
        pa.field("ended_at", INSTANT),
        pa.field("duration_ms", pa.int64()),
        pa.field("event_count", pa.int32()),
        pa.field("close_reason", pa.string()),
        *([schema.session_schema(payload).field("events")] if keep_events else []),
        *_origin_fields("emitted_at"),
    ]

    def columns(sessions: pa.RecordBatch, origin: RowOrigin) -> list[pa.Array]:
        started, ended = sessions.column("started_at"), sessions.column("ended_at")
        return [
            _identities(sessions),
            sessions.column("key"),
            sessions.column("client"),
            _day(started),
            started,
            ended,
            pc.subtract(_milliseconds(ended), _milliseconds(started)),
            sessions.column("event_count"),
            sessions.column("close_reason"),
            *([sessions.column("events")] if keep_events else []),
            *origin.columns(sessions.num_rows),
        ]

    return RowShape(pa.schema(fields), columns)


def open_rows(payload: schema.Payload, *, shows_events: bool) -> RowShape:
    """Return the shape of rows of ``open_sessions``, from batches by ``open_schema``.

    With ``shows_events`` they also have the place by which ``open_events`` are joined.
    """
    fields = [
        pa.field("session_id", pa.string()),
        pa.field("settled", pa.bool_()),
        pa.field("key", pa.string()),
        pa.field("client", pa.string()),
        pa.field("date", pa.date32()),
        pa.field("started_at", INSTANT),
        pa.field("last_event_at", INSTANT),
        pa.field("due_at", INSTANT),
        pa.field("event_count", pa.int32()),
        pa.field("first_event_id", pa.string()),
        *([pa.field("_place", pa.int64())] if shows_events else []),
        *_origin_fields("as_of"),
    ]
    emitted = open_schema(payload, shows_events=shows_events).names

    def columns(sessions: pa.RecordBatch, origin: RowOrigin) -> list[pa.Array]:
        made = {field.name: sessions.column(field.name) for field in fields if field.name in emitted}
        made |= {"session_id": _identities(sessions), "date": _day(sessions.column("started_at"))}
        made |= zip(("lineage", "batch_id", "as_of"), origin.columns(sessions.num_rows), strict=True)
        return [made[field.name] for field in fields]

    return RowShape(pa.schema(fields), columns)


def open_events(payload: schema.Payload) -> RowShape:
    """Return the shape of the places of open sessions and their events, from batches by ``open_schema``."""
    emitted = open_schema(payload, shows_events=True)
    fields = [emitted.field(name) for name in ("_place", "events")]
    return RowShape(pa.schema(fields), lambda sessions, _: [sessions.column(field.name) for field in fields])


def late_rows(payload: schema.Payload) -> RowShape:
    """Return the shape of rows of ``late_events``, from batches by ``schema.event_schema``."""
    fields = [
        pa.field("key", pa.string()),
        pa.field("client", pa.string()),
        pa.field("event_time", INSTANT),
        pa.field("event_id", pa.string()),
        pa.field("closes", pa.bool_()),
        pa.field("timeout_ms", pa.int64()),
        *payload,
        pa.field("date", pa.date32()),
        *_origin_fields("noticed_at"),
    ]

    def columns(events: pa.RecordBatch, origin: RowOrigin) -> list[pa.Array]:
        event_time = instants(events.column(schema.CLOCK))
        return [
            events.column(schema.KEY),
            events.column(schema.CLIENT),
            event_time,
            *(events.column(name) for name in (schema.EVENT_ID, schema.CLOSES, schema.TIMEOUT)),
            *(events.column(schema.payload_field(field).name) for field in payload),
            _day(event_time),
            *origin.columns(events.num_rows),
        ]

    return RowShape(pa.schema(fields), columns)


def quarantine_rows() -> RowShape:
    """Return the shape of rows of ``quarantine``, from batches of reason, raw text and position."""
    texts = [pa.field(name, pa.string()) for name in ("reason", "raw", "source_position")]
    fields = [*texts, pa.field("date", pa.date32()), *_origin_fields("quarantined_at")]

    def columns(refused: pa.RecordBatch, origin: RowOrigin) -> list[pa.Array]:
        today = pa.repeat(pa.scalar(origin.at.date(), pa.date32()), refused.num_rows)
        return [*refused.columns, today, *origin.columns(refused.num_rows)]

    return RowShape(pa.schema(fields), columns)


def _origin_fields(at: str) -> list[pa.Field]:
    return [pa.field("lineage", pa.string()), pa.field("batch_id", pa.int64()), pa.field(at, INSTANT)]


def _identities(sessions: pa.RecordBatch) -> pa.Array:
    keys, first_ids = sessions.column("key").to_pylist(), sessions.column("first_event_id").to_pylist()
    started_ms = _milliseconds(sessions.column("started_at")).to_pylist()
    return pa.array(map(session_id, keys, started_ms, first_ids), pa.string())


def _milliseconds(instant: pa.Array) -> pa.Array:
    """Return timestamps as epoch milliseconds. The result is exact, because clocks have whole milliseconds."""
    return pc.divide(instant.cast(pa.int64()), _MICROSECONDS)


def _day(instant: pa.Array) -> pa.Array:
    """Return the UTC day of each timestamp."""
    return instant.cast(pa.date32())


class DecidedEvents(NamedTuple):
    """Decided events of a group. ``rows``: the open ones by ``canonical_schema``, all of one turn.

    ``merged``: the sessions that are over, and the duplicates. They are written as they would be without a migration.
    """

    rows: pa.Table
    merged: Merged


def decide_rows(
    log: Sequence[pa.Table], key_group: int, shared: GroupRules, final_by_ms: int, events: pa.Schema
) -> DecidedEvents:
    """Decide a group's ``log``, oldest table first, by the rules that were ``shared`` so far.

    Sessions that are due by ``final_by_ms`` (epoch ms) are over. ``events``: columns that take all columns of the log.
    Raises ``pa.ArrowTypeError`` if a column has no type in common with ``events``.
    """
    merged = merge(log, final_by_ms, shared.rules, shared.payload)
    pieces = [piece for table in merged.open_events for piece in log_tables(table)]
    if not pieces:
        return DecidedEvents(canonical_schema(events).empty_table(), merged)
    return DecidedEvents(read_typed_rows([pieces[0], *map(mark_continued, pieces[1:])], key_group, events), merged)
