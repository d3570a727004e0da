"""Starts Python on the executors while the driver is still busy with tables and plans."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


def start_python(spark: SparkSession) -> threading.Thread:
    """Begin to start the workers; harmless if it fails or comes too late, for then the first batch starts them."""
    thread = threading.Thread(target=_run_once, args=(spark,), name="python-start", daemon=True)
    thread.start()
    return thread


def _run_once(spark: SparkSession) -> None:
    with suppress(PySparkException, Py4JError, OSError):
        spark.range(1).mapInArrow(_unchanged, "id bigint").collect()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
