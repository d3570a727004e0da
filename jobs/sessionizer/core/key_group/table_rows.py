"""The operator's output, completed to rows of ``sessions``, ``late_events``, ``quarantine`` and ``open_sessions``.

Open events of a key group without its undecided duplicates, as rows that a migration can change.

A log compares duplicates within a key and in the order of their batches. A migration changes keys, so all that waits in
the log is decided before it. Its rows are then one batch, whatever group or batch they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


NOWHERE: Final = RowOrigin("", 0, datetime.fromtimestamp(0, UTC))
"""The origin of rows of which only the types are read."""

Column = tuple[pa.Field, str | Callable[[pa.RecordBatch, RowOrigin], pa.Array]]
"""A column of a table, and its values: the name of the batch's column, or a function of the batch and its origin."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """The ``schema`` of a table's rows, and how each of its columns is made of a batch.

    Columns that need Spark (the measures) are not included.
    """

    schema: pa.Schema
    columns: Sequence[Column]

    def rows(self, batch: pa.RecordBatch, origin: RowOrigin) -> pa.RecordBatch:
        """Return the rows of the table for ``batch``."""
        made = [batch.column(made) if isinstance(made, str) else made(batch, origin) for _, made in self.columns]
        return pa.RecordBatch.from_arrays(made, schema=self.schema)


def _shape(columns: Iterable[Column], at: str) -> RowShape:
    """Return the shape of ``columns`` and those of the origin, whose moment is the column ``at``."""
    every = [
        *columns,
        (pa.field("lineage", pa.string()), lambda batch, origin: pa.repeat(origin.lineage, batch.num_rows)),
        (pa.field("batch_id", pa.int64()), lambda batch, origin: pa.repeat(origin.batch_id, batch.num_rows)),
        (pa.field(at, INSTANT), lambda batch, origin: pa.repeat(pa.scalar(origin.at, INSTANT), batch.num_rows)),
    ]
    return RowShape(pa.schema([field for field, _ in every]), every)


def session_rows(payload: schema.Payload, *, keep_events: bool) -> RowShape:
    """Return the shape of rows of ``sessions``, from batches by ``schema.session_schema``."""
    columns: list[Column] = [
        (pa.field("session_id", pa.string()), _identities),
        (pa.field("key", pa.string()), "key"),
        (pa.field("client", pa.string()), "client"),
        (pa.field("date", pa.date32()), lambda sessions, _: _day(sessions.column("started_at"))),
        (pa.field("started_at", INSTANT), "started_at"),
        (pa.field("ended_at", INSTANT), "ended_at"),
        (pa.field("duration_ms", pa.int64()), _duration),
        (pa.field("event_count", pa.int32()), "event_count"),
        (pa.field("close_reason", pa.string()), "close_reason"),
        *([(schema.session_schema(payload).field("events"), "events")] if keep_events else []),
    ]
    return _shape(columns, "emitted_at")


def open_rows(payload: schema.Payload, *, shows_events: bool) -> RowShape:
    """Return the shape of rows of ``open_sessions``, from batches by ``open_schema``.

    With ``shows_events`` they also have the place by which ``open_events`` are joined.
    """
    emitted = open_schema(payload, shows_events=shows_events)
    shown = ("settled", "key", "client", "date", "started_at", "last_event_at", "due_at", "event_count")
    taken: dict[str, Column] = {name: (emitted.field(name), name) for name in emitted.names}
    taken["date"] = (pa.field("date", pa.date32()), lambda sessions, _: _day(sessions.column("started_at")))
    names = (*shown, "first_event_id", *(["_place"] if shows_events else []))
    return _shape([(pa.field("session_id", pa.string()), _identities), *(taken[name] for name in names)], "as_of")


def open_events(payload: schema.Payload) -> RowShape:
    """Return the shape of the places of open sessions and their events, from batches by ``open_schema``."""
    fields = [open_schema(payload, shows_events=True).field(name) for name in ("_place", "events")]
    return RowShape(pa.schema(fields), [(field, field.name) for field in fields])


def late_rows(payload: schema.Payload) -> RowShape:
    """Return the shape of rows of ``late_events``, from batches by ``schema.event_schema``."""
    columns: list[Column] = [
        (pa.field("key", pa.string()), schema.KEY),
        (pa.field("client", pa.string()), schema.CLIENT),
        (pa.field("event_time", INSTANT), lambda events, _: instants(events.column(schema.CLOCK))),
        (pa.field("event_id", pa.string()), schema.EVENT_ID),
        (pa.field("closes", pa.bool_()), schema.CLOSES),
        (pa.field("timeout_ms", pa.int64()), schema.TIMEOUT),
        *((field, schema.payload_field(field).name) for field in payload),
        (pa.field("date", pa.date32()), lambda events, _: _day(events.column(schema.CLOCK).cast(pa.timestamp("ms")))),
    ]
    return _shape(columns, "noticed_at")


def quarantine_rows() -> RowShape:
    """Return the shape of rows of ``quarantine``, from batches of reason, raw text and position."""
    columns: list[Column] = [
        (pa.field("reason", pa.string()), lambda refused, _: refused.column(0)),
        (pa.field("raw", pa.string()), lambda refused, _: refused.column(1)),
        (pa.field("source_position", pa.string()), lambda refused, _: refused.column(2)),
        (
            pa.field("date", pa.date32()),
            lambda refused, origin: pa.repeat(pa.scalar(origin.at.date(), pa.date32()), refused.num_rows),
        ),
    ]
    return _shape(columns, "quarantined_at")


def _identities(sessions: pa.RecordBatch, _: RowOrigin) -> pa.Array:
    keys, first_ids = sessions.column("key").to_pylist(), sessions.column("first_event_id").to_pylist()
    started_ms = _milliseconds(sessions.column("started_at")).to_pylist()
    return pa.array(map(session_id, keys, started_ms, first_ids), pa.string())


def _duration(sessions: pa.RecordBatch, _: RowOrigin) -> pa.Array:
    return pc.subtract(_milliseconds(sessions.column("ended_at")), _milliseconds(sessions.column("started_at")))


def _milliseconds(instant: pa.Array) -> pa.Array:
    """Return timestamps as epoch milliseconds. The result is exact, because clocks have whole milliseconds."""
    return pc.divide(instant.cast(pa.int64()), 1000)


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
