"""The Python workers of a local driver never look for garbage through what was imported.

They come with everything imported, but for those of Spark's own daemon.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import TYPE_CHECKING

import pyarrow as pa

from sessionizer.launch.driver_environment import plain
from sessionizer.spark.internals.worker_daemon import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

PROCESSOR = "sessionizer.spark.query.processor"
IMPORTED = 40_000
"""Objects. Our daemon leaves 75,000, the operator alone 48,000, an empty Python 7,000; none are frozen unasked."""


def test_a_worker_has_its_imports_frozen(spark: SparkSession) -> None:
    as_spark_has_it = plain()

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            if as_spark_has_it:
                importlib.import_module(PROCESSOR)
                freeze_imports("a test")
            imported = PROCESSOR in sys.modules
            yield pa.record_batch(
                [pa.array([gc.get_freeze_count()]), pa.array([imported])], names=["frozen", "imported"]
            )

    [seen] = spark.range(1, numPartitions=1).mapInArrow(look, "frozen bigint, imported boolean").collect()
    assert seen.imported
    assert seen.frozen > IMPORTED
