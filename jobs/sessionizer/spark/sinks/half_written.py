"""A batch that was cut short after it had written: its rows are in a table, and its state is not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.checkpoint.batch_logs import begun_batch, committed_batch
from sessionizer.spark.internals.delta_log import last_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from sessionizer.home.roots import DataPath


def half_written_batch(spark: SparkSession, checkpoint: DataPath, lineage: str, tables: Iterable[str]) -> int | None:
    """Return the batch that a table has rows of and the checkpoint no commit. None if there is no such batch."""
    begun = begun_batch(checkpoint)
    if begun is None or begun == committed_batch(checkpoint):
        return None
    return begun if any(last_version(spark, table, lineage) >= begun for table in tables) else None
