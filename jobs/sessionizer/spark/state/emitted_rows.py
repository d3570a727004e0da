"""Rows by ``rows.EMITTED`` that no query emitted: the results of a history, or of a state that is migrated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from sessionizer.core.wire import rows
from sessionizer.core.wire.codec import open_blob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from sessionizer.spark.query.processor import Output


def tabulate_output(output: Output) -> pa.Table:
    """Return an output as a table by ``rows.EMITTED``."""
    columns = {"kind": pa.string(), "key_group": pa.int32(), "row_count": pa.int32(), "blob": pa.binary()}
    return pa.Table.from_pylist([row.asDict() for row in output.rows], pa.schema(columns))


def select_open_events(emitted: DataFrame, shape: pa.Schema) -> DataFrame:
    """Return the emitted open events, whose columns are those of ``shape``."""

    def open_blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column("blob"):
                found = open_blob(blob.as_buffer()).read_all()
                yield from (found if found.schema.equals(shape) else found.cast(shape)).to_batches()

    blobs = emitted.where(F.col("kind") == rows.OPEN_EVENTS).select("blob")
    return blobs.mapInArrow(open_blobs, from_arrow_schema(shape, prefer_timestamp_ntz=False))


def admissions_in(emitted: DataFrame) -> list[str]:
    """Return the different admissions of emitted open events whose admissions are numbers."""
    blobs = emitted.where(F.col("kind") == rows.ADMISSIONS).select("blob").distinct().collect()
    return sorted({text for row in blobs for text in json.loads(bytes(row.blob))})


def count_by_kind(emitted: DataFrame) -> dict[str, int]:
    """Return the number of rows of each kind."""
    counted = emitted.groupBy("kind").agg(F.sum("row_count").alias("rows")).collect()
    return {row["kind"]: row["rows"] for row in counted}
