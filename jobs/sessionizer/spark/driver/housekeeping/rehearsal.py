"""The first checkpoint of a table's log in a driver's life, done beforehand and on another table.

Every fiftieth commit of a table Delta writes a checkpoint of its log, within the batch of that commit.
The first one in a JVM takes four seconds, because all of its code is new. The next take one (docs/develop/tuning.md).
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionizer.errors import SessionizerError
from sessionizer.home.data_files import remove_tree
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.spark.internals.delta_append import Transaction, append_once
from sessionizer.spark.internals.java_errors import JavaError, JavaUnreachable
from sessionizer.spark.sinks.table_shapes import quarantine_shape
from sessionizer.spark.sinks.tables import ensure_table

AFTER_BATCHES: Final = 10
"""Batches before the rehearsal.

The first ones have code of their own to compile, and a driver that ends soon needs none.
"""
ENDED_WITHIN_S: Final = 30.0
_COMMITS: Final = 2


class Rehearsal:
    """A rehearsal that happens once, on a thread of its own, with a table in ``folder`` that no other process knows."""

    def __init__(self, spark: SparkSession, folder: DataPath) -> None:
        self._spark, self._folder = spark, folder
        self._thread: threading.Thread | None = None

    def is_due(self, batches: int) -> bool:
        """Whether it is time, after so many ``batches``. A driver with waiting events lets it wait, too."""
        return self._thread is None and batches >= AFTER_BATCHES

    def begin(self) -> None:
        """Start the rehearsal, at most once."""
        self._thread = threading.Thread(target=self._checkpoint, name="rehearsal", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Return when no part of it runs, because Spark must not be stopped under a job."""
        if self._thread is not None:
            self._thread.join(ENDED_WITHIN_S)

    def _checkpoint(self) -> None:
        """Write the checkpoint.

        A failure is harmless: the first real checkpoint is then as slow as without a rehearsal.
        """
        with suppress(SessionizerError, PySparkException, JavaError, JavaUnreachable, OSError):
            remove_tree(self._folder)  # of a driver that was killed meanwhile
            rehearse_checkpoint(self._spark, uri_of(self._folder))
            remove_tree(self._folder)


def rehearse_checkpoint(spark: SparkSession, location: str) -> None:
    """Make a table of one row at ``location``, each of whose commits comes with a checkpoint, and append to it."""
    shape = quarantine_shape()
    shape = replace(shape, properties={**shape.properties, "delta.checkpointInterval": "1"})
    ensure_table(spark, shape, location)
    row = spark.range(1).select(*(F.lit(None).cast(column.dataType).alias(column.name) for column in shape.columns))
    for version in range(_COMMITS):
        append_once(row, location, Transaction("rehearsal", version), lambda: None)
