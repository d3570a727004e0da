"""Unpacking: emitted blobs back into rows, each kind with the columns of its table. Runs in ``mapInArrow``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructType

from sessionizer.core import schema
from sessionizer.core.merging import instants
from sessionizer.spark import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame


def unpack_sessions(emitted: DataFrame, payload: schema.Payload) -> DataFrame:
    """Sessions by ``schema.session_schema``."""
    columns = from_arrow_schema(schema.session_schema(payload), prefer_timestamp_ntz=False)
    return _of_kind(emitted, rows.SESSIONS).mapInArrow(_open, columns)


def unpack_late(emitted: DataFrame, payload: schema.Payload) -> DataFrame:
    """Late events: key, client, event_time, event_id, closes, timeout_ms and the payload columns."""
    shape = _late_schema(payload)
    columns = from_arrow_schema(shape, prefer_timestamp_ntz=False)
    return _of_kind(emitted, rows.LATE).mapInArrow(_opener_of_late(shape, payload), columns)


def unpack_quarantine(emitted: DataFrame) -> DataFrame:
    """Quarantined rows: reason, raw, position."""
    columns = StructType()
    for name in rows.QUARANTINE_COLUMNS:
        columns = columns.add(name, StringType())
    opened = _of_kind(emitted, rows.QUARANTINE).mapInArrow(_open, columns)
    return opened.toDF("reason", "raw", "source_position")


def _of_kind(emitted: DataFrame, kind: str) -> DataFrame:
    return emitted.where(F.col("kind") == kind).select("blob")


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


def _opener_of_late(
    shape: pa.Schema, payload: schema.Payload
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def open_late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for events in _open(batches):
            values = [events.column(name) for name in (schema.KEY, schema.CLIENT)]
            values.append(instants(events.column(schema.CLOCK)))
            values += [events.column(name) for name in (schema.EVENT_ID, schema.CLOSES, schema.TIMEOUT)]
            values += [events.column(schema.payload_field(field).name) for field in payload]
            yield pa.RecordBatch.from_arrays(values, schema=shape)

    return open_late
