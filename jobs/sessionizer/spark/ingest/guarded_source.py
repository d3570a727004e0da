"""Events of a stream: its source, read and guarded. Rows of excluded ranges go to quarantine (docs/adr/0104)."""

from __future__ import annotations

import operator
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sessionizer.core.definition.reasons import QuarantineReason
from sessionizer.lineage.left_out import NOTHING_LEFT_OUT
from sessionizer.spark.ingest.file_source.lines import FAULT, POSITION
from sessionizer.spark.ingest.file_source.unreadable import drop_files
from sessionizer.spark.ingest.guard import guard
from sessionizer.spark.ingest.source import read_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from sessionizer.lineage.left_out import LeftOut, Records
    from sessionizer.spark.ingest.guard import Guarded
    from sessionizer.stream_spec.document.stream import StreamSpec


def guarded_source(
    spark: SparkSession,
    spec: StreamSpec,
    platform_home: Path,
    unreadable: Sequence[str] = (),
    left_out: LeftOut = NOTHING_LEFT_OUT,
    schema_ids: frozenset[int] | None = None,
) -> Guarded:
    """Return the guarded rows of the source without its ``unreadable`` files. Rows of a ``left_out`` range are refused.

    ``schema_ids``: as ``read_source`` has them.

    Relative paths of the spec resolve against ``platform_home``. Raises InvalidSpec if the spec does not fit.
    """
    rows = read_source(
        spark, spec.source, platform_home, spec.rules.max_event_bytes, stream=True, schema_ids=schema_ids
    )
    return guard(spark, leaving_out(drop_files(rows, unreadable), left_out, spec.source.format), spec)


def leaving_out(rows: DataFrame, left_out: LeftOut, source: str) -> DataFrame:
    """Mark source ``rows`` of an excluded range with ``left_out`` as their fault, in place of any other fault.

    Returns the same object if nothing is excluded, so that nothing of the query changes.
    """
    if not left_out:
        return rows
    if source == "delta":  # its stream has no column of metadata
        rows = rows.withColumn(POSITION, F.input_file_name())
    held = reduce(operator.or_, _conditions(left_out))
    return rows.withColumn(FAULT, F.when(held, F.lit(QuarantineReason.LEFT_OUT.value)).otherwise(F.col(FAULT)))


def _conditions(left_out: LeftOut) -> list[Column]:
    """Write ``LeftOut.holds`` in SQL: a condition each for the files and for each range of records."""
    files = [form for uri in left_out.files for form in _forms(uri)]
    of_files = [F.col(POSITION).isin(*files)] if files else []
    return [*of_files, *map(_match_records, left_out.records)]


def _forms(uri: str) -> tuple[str, ...]:
    """Return the names of a file in Spark's metadata column and in ``input_file_name``."""
    return (uri, uri.replace("file:/", "file:///", 1)) if uri.startswith("file:/") else (uri,)


def _match_records(records: Records) -> Column:
    offset = F.substring_index(POSITION, "-", -1)
    of_partition = F.col(POSITION) == F.concat(F.lit(f"{records.topic}-{records.partition}-"), offset)
    number = offset.cast("bigint")
    return of_partition & (number >= records.first) & (number < records.end)
