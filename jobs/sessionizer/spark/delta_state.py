"""Keeps Delta's view of a table warm between two batches.

A write with ``txnAppId`` asks the table which transactions it has seen, and for that Delta rebuilds the table's whole
state from its log: three small jobs before each write (docs/adr/0011). Done in the background while Spark commits one
batch and plans the next, when the executors are idle, it costs the batch nothing.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def warm_up(spark: SparkSession, location: str) -> threading.Thread:
    """Start to rebuild the state of the table at ``location``; harmless if it fails or comes too late."""
    thread = threading.Thread(target=_rebuild, args=(spark, location), name="delta-state", daemon=True)
    thread.start()
    return thread


def _rebuild(spark: SparkSession, location: str) -> None:
    jvm = spark.sparkContext._jvm  # noqa: SLF001  Delta's log has no Python API
    if jvm is None:
        return
    with suppress(Py4JError, OSError):
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, location)  # noqa: SLF001
        log.unsafeVolatileSnapshot().transactions()
