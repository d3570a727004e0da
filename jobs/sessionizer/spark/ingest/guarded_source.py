"""The events of a stream: its source, read and guarded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.lineage.left_out import NOTHING_LEFT_OUT
from sessionizer.spark.ingest.file_source.unreadable import drop_files
from sessionizer.spark.ingest.guard import guard
from sessionizer.spark.ingest.left_out import leaving_out
from sessionizer.spark.ingest.source import read_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.lineage.left_out import LeftOut
    from sessionizer.spark.ingest.guard import Guarded
    from sessionizer.stream_spec.document.stream import StreamSpec


def guarded_source(
    spark: SparkSession,
    spec: StreamSpec,
    platform_home: Path,
    unreadable: Sequence[str] = (),
    left_out: LeftOut = NOTHING_LEFT_OUT,
) -> Guarded:
    """Return the guarded rows of the source without its ``unreadable`` files. Rows of a ``left_out`` range are refused.

    Relative paths of the spec resolve against ``platform_home``. Raises InvalidSpec if the spec does not fit.
    """
    rows = read_source(spark, spec.source, platform_home, spec.rules.max_event_bytes, stream=True)
    return guard(spark, leaving_out(drop_files(rows, unreadable), left_out, spec.source.format), spec)
