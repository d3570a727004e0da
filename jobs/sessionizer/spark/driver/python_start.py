"""Starts Python on the executors while the driver is still busy with tables and plans."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from sessionizer.spark.internals.java_errors import JavaUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


ENDED_WITHIN_S: Final = 30.0
"""A cluster may have no executor to spare; what the driver found meanwhile must be said all the same."""


@contextmanager
def python_starting(spark: SparkSession) -> Iterator[None]:
    """Start the workers beside what is done inside; harmless if it fails, for then the first batch starts them.

    Ends when they have started: Spark must not be stopped under a job, which would fill the log with its complaints.
    """
    thread = threading.Thread(target=_run_once, args=(spark,), name="python-start", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(ENDED_WITHIN_S)


def _run_once(spark: SparkSession) -> None:
    with suppress(PySparkException, JavaUnreachable, OSError):
        spark.range(1).mapInArrow(_unchanged, "id bigint").collect()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
