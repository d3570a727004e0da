"""The garbage collector of a Python worker skips what was imported, once a function of ours has run in it."""

from __future__ import annotations

import gc
import importlib
from typing import TYPE_CHECKING

import pyarrow as pa

from sessionizer.spark.frozen_imports import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

IMPORTED = 40_000
"""Objects. The operator alone has 48,000, an empty Python 7,000; none are frozen unasked."""


def test_a_worker_has_its_imports_frozen(spark: SparkSession) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            importlib.import_module("sessionizer.spark.query.processor")
            freeze_imports("a test")
            yield pa.record_batch([pa.array([gc.get_freeze_count()])], names=["frozen"])

    [seen] = spark.range(1, numPartitions=1).mapInArrow(look, "frozen bigint").collect()
    assert seen.frozen > IMPORTED
