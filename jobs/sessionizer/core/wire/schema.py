"""The columns of an event on its way through the stream, as Arrow schemas.

Times are epoch milliseconds (int64). The *clock* is the time a session is measured on: the event's own time in
``event_time`` mode, the arrival of its batch in the two arrival modes. The arrival modes keep the event's own time (0
if it has none) as ``tie``, which orders the events of one batch.

The labels of key groups spread the groups evenly. Spark puts a row into the partition ``hash(grouping key) mod
partitions``. If sixteen groups were labelled 0 to 15, one of two partitions would get nine, and of eight partitions
some would get four and some none. So the label of group g is the smallest number whose hash is g modulo the number of
groups. If the number of partitions divides the number of groups, all partitions get the same number of groups.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
    times = {CLOCK: pa.int64()} if clock.has_watermark else {CLOCK: pa.int64(), TIE: pa.int64()}
    own = {KEY: pa.string(), CLIENT: pa.string(), **times}
    own |= {EVENT_ID: pa.string(), CLOSES: pa.bool_(), TIMEOUT: pa.int64()}
    return pa.schema([*(pa.field(name, kind) for name, kind in own.items()), *map(payload_field, payload)])


def payload_field(field: pa.Field) -> pa.Field:
    """Return the column of a payload field. Its prefix prevents a clash with our columns."""
    return pa.field(f"{PAYLOAD}_{field.name}", field.type)


def session_event_type(payload: Payload) -> pa.StructType:
    """Return the type of an element of a session's ``events``.

    Its fields are event_time (µs, UTC), event_id, closes, then the payload columns.
    """
    own = {"event_time": pa.timestamp("us", tz="UTC"), "event_id": pa.string(), "closes": pa.bool_()}
    return pa.struct([*(pa.field(name, kind) for name, kind in own.items()), *payload])


def session_schema(payload: Payload) -> pa.Schema:
    """Return the schema of finished sessions as the operator emits them. ``events`` is in session order."""
    timestamp = pa.timestamp("us", tz="UTC")
    return pa.schema(
        {
            KEY: pa.string(),
            CLIENT: pa.string(),
            "started_at": timestamp,
            "ended_at": timestamp,
            "event_count": pa.int32(),
            "close_reason": pa.string(),
            "first_event_id": pa.string(),
            "events": pa.list_(session_event_type(payload)),
        }
    )


Labels = NDArray[np.int32]


def group_labels(groups: int) -> Labels:
    """Return the label of each group, by its number."""
    candidates = groups
    while True:
        candidates *= 4
        residues = np.mod(spark_hash(np.arange(candidates, dtype=np.int32)), groups)
        found, label = np.unique(residues, return_index=True)
        if len(found) == groups:
            return label.astype(np.int32)


def group_numbers(groups: int) -> dict[int, int]:
    """Return the number of each group, by its label."""
    return {label: number for number, label in enumerate(group_labels(groups).tolist())}


def spark_hash(numbers: Labels) -> Labels:
    """Return Spark's hash of an INT column: 32-bit MurmurHash3 of one word (``Murmur3_x86_32.hashInt``)."""
    mixed = _rotate(numbers.view(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    state = _rotate(mixed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(4)
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).view(np.int32)


def _rotate(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
