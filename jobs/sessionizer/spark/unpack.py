"""Unpacking: emitted blobs back into rows, each kind with the columns of its table. Runs in ``mapInArrow``.

Every row also gets the columns of its batch's ``Origin``. As literals of Spark they would stand in the code that Spark
generates, which would then be compiled anew in every batch (docs/adr/0012).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from sessionizer.core import schema
from sessionizer.core.merging import instants
from sessionizer.spark import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

_INSTANT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Origin:
    """Which batch wrote a row, and the wall clock ``at`` that moment."""

    lineage: str
    batch_id: int
    at: datetime

    @classmethod
    def now(cls, lineage: str, batch_id: int) -> Origin:
        """The origin of what ``batch_id`` writes now."""
        return cls(lineage, batch_id, datetime.now(UTC))

    def fields(self, at: str) -> list[pa.Field]:
        """The columns of an origin; ``at`` is the name of the one that says when."""
        return [pa.field("lineage", pa.string()), pa.field("batch_id", pa.int64()), pa.field(at, _INSTANT)]

    def columns(self, count: int) -> list[pa.Array]:
        """Their values, for ``count`` rows."""
        return [pa.repeat(value, count) for value in (self.lineage, self.batch_id, pa.scalar(self.at, _INSTANT))]


NOWHERE = Origin("", 0, datetime.fromtimestamp(0, UTC))
"""Of rows that only their types are asked of."""


def unpack_sessions(emitted: DataFrame, payload: schema.Payload, origin: Origin) -> DataFrame:
    """Sessions by ``schema.session_schema``, and lineage, batch_id, emitted_at."""
    shape = pa.schema([*schema.session_schema(payload), *origin.fields("emitted_at")])

    def complete(sessions: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*sessions.columns, *origin.columns(sessions.num_rows)], schema=shape)

    return _unpacked(emitted, rows.SESSIONS, shape, complete)


def unpack_late(emitted: DataFrame, payload: schema.Payload, origin: Origin) -> DataFrame:
    """Late events: key, client, event_time, event_id, closes, timeout_ms, payload, lineage, batch_id, noticed_at."""
    shape = pa.schema([*_late_fields(payload), *origin.fields("noticed_at")])

    def complete(events: pa.RecordBatch) -> pa.RecordBatch:
        columns = [*_late_columns(events, payload), *origin.columns(events.num_rows)]
        return pa.RecordBatch.from_arrays(columns, schema=shape)

    return _unpacked(emitted, rows.LATE, shape, complete)


def unpack_quarantine(emitted: DataFrame, origin: Origin) -> DataFrame:
    """Quarantined rows: reason, raw, source_position, lineage, batch_id, quarantined_at."""
    texts = [pa.field(name, pa.string()) for name in ("reason", "raw", "source_position")]
    shape = pa.schema([*texts, *origin.fields("quarantined_at")])

    def complete(refused: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*refused.columns, *origin.columns(refused.num_rows)], schema=shape)

    return _unpacked(emitted, rows.QUARANTINE, shape, complete)


def _unpacked(
    emitted: DataFrame, kind: str, shape: pa.Schema, complete: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> DataFrame:
    """The rows of ``kind``, each of their batches completed to ``shape``."""

    def open_blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(complete, _open(batches))

    blobs = emitted.where(F.col("kind") == kind).select("blob")
    return blobs.mapInArrow(open_blobs, from_arrow_schema(shape, prefer_timestamp_ntz=False))


def _open(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column("blob"):
            yield from pa.ipc.open_stream(blob.as_buffer())


def _late_fields(payload: schema.Payload) -> list[pa.Field]:
    return [
        pa.field("key", pa.string()),
        pa.field("client", pa.string()),
        pa.field("event_time", _INSTANT),
        pa.field("event_id", pa.string()),
        pa.field("closes", pa.bool_()),
        pa.field("timeout_ms", pa.int64()),
        *payload,
    ]


def _late_columns(events: pa.RecordBatch, payload: schema.Payload) -> list[pa.Array]:
    return [
        *(events.column(name) for name in (schema.KEY, schema.CLIENT)),
        instants(events.column(schema.CLOCK)),
        *(events.column(name) for name in (schema.EVENT_ID, schema.CLOSES, schema.TIMEOUT)),
        *(events.column(schema.payload_field(field).name) for field in payload),
    ]
