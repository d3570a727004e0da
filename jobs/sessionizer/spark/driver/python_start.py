"""Start of Python on the executors while the driver is still busy with tables and plans."""

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
"""Seconds to wait for the workers.

A cluster may have no executor to spare, and the driver must still report its findings.
"""


@contextmanager
def start_python_workers(spark: SparkSession) -> Iterator[None]:
    """Start the workers while the block runs. A failure is harmless, because the first batch starts them then.

    Ends when they have started, because a Spark that is stopped under a job fills the log with complaints.
    """
    thread = threading.Thread(target=_run_once, args=(spark,), name="python-start", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(ENDED_WITHIN_S)


def _run_once(spark: SparkSession) -> None:
    with suppress(PySparkException, JavaUnreachable, OSError):
        spark.range(1).mapInArrow(_pass_on, "id bigint").collect()


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
