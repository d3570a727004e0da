"""The columns of an event on its way through the stream, as Arrow schemas.

Times are epoch milliseconds (int64). The *clock* is the time a session is measured on: the event's own time in
``event_time`` mode, the arrival of its batch in the two arrival modes. The arrival modes keep the event's own time (0
if it has none) as ``tie``, which orders the events of one batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from sessionizer.core.definition.rules import Clock

KEY = "key"
CLIENT = "client"
CLOCK = "clock"
TIE = "tie"
EVENT_ID = "event_id"
CLOSES = "closes"
TIMEOUT = "timeout_ms"
PAYLOAD = "payload"

Payload = list[pa.Field]


def event_schema(payload: Payload, clock: Clock) -> pa.Schema:
    """Return the schema of packed events and of open events in the state, payload columns flat and last.

    Before admission ``timeout_ms`` is the event's own and may be null. In the state it is the timeout in force.
    """
    columns: list[pa.Field] = [pa.field(KEY, pa.string()), pa.field(CLIENT, pa.string()), pa.field(CLOCK, pa.int64())]
    if not clock.has_watermark:
        columns.append(pa.field(TIE, pa.int64()))
    columns += [pa.field(EVENT_ID, pa.string()), pa.field(CLOSES, pa.bool_()), pa.field(TIMEOUT, pa.int64())]
    return pa.schema([*columns, *(payload_field(field) for field in payload)])


def payload_field(field: pa.Field) -> pa.Field:
    """Return the column of a payload field. Its prefix prevents a clash with our columns."""
    return pa.field(f"{PAYLOAD}_{field.name}", field.type)


def session_event_type(payload: Payload) -> pa.StructType:
    """Return the type of an element of a session's ``events``.

    Its fields are event_time (µs, UTC), event_id, closes, then the payload columns.
    """
    return pa.struct(
        [
            pa.field("event_time", pa.timestamp("us", tz="UTC")),
            pa.field("event_id", pa.string()),
            pa.field("closes", pa.bool_()),
            *payload,
        ],
    )


def session_schema(payload: Payload) -> pa.Schema:
    """Return the schema of finished sessions as the operator emits them. ``events`` is in session order."""
    timestamp = pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            pa.field(KEY, pa.string()),
            pa.field(CLIENT, pa.string()),
            pa.field("started_at", timestamp),
            pa.field("ended_at", timestamp),
            pa.field("event_count", pa.int32()),
            pa.field("close_reason", pa.string()),
            pa.field("first_event_id", pa.string()),
            pa.field("events", pa.list_(session_event_type(payload))),
        ],
    )
