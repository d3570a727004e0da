"""The Python workers of a local driver come with everything imported, and never look through it for garbage again."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

IMPORTED = 50_000
"""Objects. The imports leave 75,000, an empty Python has a tenth of that; what was not frozen counts as none."""


def test_a_worker_starts_with_its_imports_frozen(spark: SparkSession) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            imported = "sessionizer.spark.query.processor" in sys.modules
            yield pa.record_batch(
                [pa.array([gc.get_freeze_count()]), pa.array([imported])], names=["frozen", "imported"]
            )

    [seen] = spark.range(1, numPartitions=1).mapInArrow(look, "frozen bigint, imported boolean").collect()
    assert seen.imported
    assert seen.frozen > IMPORTED
