"""Unpacking: emitted blobs back into rows, each kind as its table has them. Runs in ``mapInArrow``.

All columns are made in Arrow. Expressions of Spark would be planned anew in every batch, and what differs between
batches would stand in the code that Spark generates, which would then be compiled anew (docs/tuning.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from sessionizer.core.wire.codec import open_blob
from sessionizer.spark.frozen_imports import freeze_imports
from sessionizer.spark.session import temporary_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.core.key_group.table_rows import RowOrigin, RowShape

ARROW_LIMIT: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
BLOBS_TO_PYTHON_BYTES: Final = 2**25
"""Bytes of an Arrow batch of blobs on the way into Python, give or take a blob.

A partition may have any number of them.
"""


def few_blobs_at_a_time(spark: SparkSession) -> AbstractContextManager[None]:
    """Have Spark weigh the Arrow batches of plans made and run in the block (see ``session.spare_small_rows``)."""
    return temporary_settings(spark, {ARROW_LIMIT: str(BLOBS_TO_PYTHON_BYTES)})


def unpack(emitted: DataFrame, kind: str, shape: RowShape, origin: RowOrigin) -> DataFrame:
    """Unpack the blobs of ``kind`` (of ``rows``) into rows of ``shape``."""

    def open_blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column("blob"):
                for rows in open_blob(blob.as_buffer()):
                    yield shape.rows(rows, origin)
        freeze_imports(unpack.__name__)

    blobs = emitted.where(F.col("kind") == kind).select("blob")
    return blobs.mapInArrow(open_blobs, from_arrow_schema(shape.schema, prefer_timestamp_ntz=False))
