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


NOWHERE = Origin("", 0, datetime.fromtimestamp(0, UTC))
"""Of rows that only their types are asked of."""


def unpack_sessions(emitted: DataFrame, payload: schema.Payload, origin: Origin) -> DataFrame:
    """Sessions by ``schema.session_schema``, and lineage, batch_id, emitted_at."""
    return _opened(emitted, rows.SESSIONS, schema.session_schema(payload), _same, (origin, "emitted_at"))


def unpack_late(emitted: DataFrame, payload: schema.Payload, origin: Origin) -> DataFrame:
    """Late events: key, client, event_time, event_id, closes, timeout_ms, payload, lineage, batch_id, noticed_at."""
    shape = _late_schema(payload)
    return _opened(emitted, rows.LATE, shape, _shaper_of_late(shape, payload), (origin, "noticed_at"))


def unpack_quarantine(emitted: DataFrame, origin: Origin) -> DataFrame:
    """Quarantined rows: reason, raw, source_position, lineage, batch_id, quarantined_at."""
    shape = pa.schema([pa.field(name, pa.string()) for name in ("reason", "raw", "source_position")])

    def rename(refused: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(refused.columns, schema=shape)

    return _opened(emitted, rows.QUARANTINE, shape, rename, (origin, "quarantined_at"))


def _opened(
    emitted: DataFrame,
    kind: str,
    shape: pa.Schema,
    reshape: Callable[[pa.RecordBatch], pa.RecordBatch],
    written: tuple[Origin, str],
) -> DataFrame:
    """Rows of ``kind``; ``written`` is their origin and the name of the column that says when."""
    origin, at = written
    instant = pa.timestamp("us", tz="UTC")
    fields = [pa.field("lineage", pa.string()), pa.field("batch_id", pa.int64()), pa.field(at, instant)]
    values = [origin.lineage, origin.batch_id, pa.scalar(origin.at, instant)]
    complete = pa.schema([*shape, *fields])

    def open_blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for opened in _open(batches):
            constants = [pa.repeat(value, opened.num_rows) for value in values]
            yield pa.RecordBatch.from_arrays([*reshape(opened).columns, *constants], schema=complete)

    blobs = emitted.where(F.col("kind") == kind).select("blob")
    return blobs.mapInArrow(open_blobs, from_arrow_schema(complete, prefer_timestamp_ntz=False))


def _same(opened: pa.RecordBatch) -> pa.RecordBatch:
    return opened


def _open(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column("blob"):
            yield from pa.ipc.open_stream(blob.as_buffer())


def _late_schema(payload: schema.Payload) -> pa.Schema:
    return pa.schema(
        [
            pa.field("key", pa.string()),
            pa.field("client", pa.string()),
            pa.field("event_time", pa.timestamp("us", tz="UTC")),
            pa.field("event_id", pa.string()),
            pa.field("closes", pa.bool_()),
            pa.field("timeout_ms", pa.int64()),
            *payload,
        ],
    )


def _shaper_of_late(shape: pa.Schema, payload: schema.Payload) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def shaped(events: pa.RecordBatch) -> pa.RecordBatch:
        values = [events.column(name) for name in (schema.KEY, schema.CLIENT)]
        values.append(instants(events.column(schema.CLOCK)))
        values += [events.column(name) for name in (schema.EVENT_ID, schema.CLOSES, schema.TIMEOUT)]
        values += [events.column(schema.payload_field(field).name) for field in payload]
        return pa.RecordBatch.from_arrays(values, schema=shape)

    return shaped
