"""The garbage collector of a Python worker skips imports, once a function of ours has run in it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pyarrow as pa

from sessionizer.spark.query.assembly import packer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

IMPORTED = 40_000
"""Objects, at least. One that has packed has 54,000, an empty Python 7,000; none are frozen unasked."""


def test_a_worker_that_has_packed_has_its_imports_frozen(spark: SparkSession) -> None:
    pack = packer([], key_groups=4)

    def pack_and_look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            assert list(pack(iter(()))) == []
            yield pa.record_batch([pa.array([gc.get_freeze_count()])], names=["frozen"])

    [seen] = spark.range(1, numPartitions=1).mapInArrow(pack_and_look, "frozen bigint").collect()
    assert seen.frozen > IMPORTED
