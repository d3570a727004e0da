"""The events of a stream: its source, read and guarded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.spark.ingest.guard import guard
from sessionizer.spark.ingest.source import read_source
from sessionizer.spark.ingest.unreadable import without

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.spark.ingest.guard import Guarded
    from sessionizer.stream_spec.document.stream import StreamSpec


def guarded_source(
    spark: SparkSession, spec: StreamSpec, platform_home: Path, unreadable: Sequence[str] = ()
) -> Guarded:
    """The guarded rows of the source, but for its ``unreadable`` files.

    Relative paths of the spec resolve against ``platform_home``. Raises InvalidSpec where the spec does not fit.
    """
    rows = read_source(spark, spec.source, platform_home, spec.rules.max_event_bytes, stream=True)
    return guard(spark, without(rows, unreadable), spec)
