"""Events of a stream: its source, read and guarded. Rows of excluded ranges go to quarantine (docs/adr/0104)."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.lineage.excluded_ranges import NOTHING_EXCLUDED, ExcludedRanges, read_excluded_ranges
from sessionizer.spark.ingest.file_source.lines import FAULT, POSITION
from sessionizer.spark.ingest.guard import guard
from sessionizer.spark.ingest.kafka_values.writers import SchemaIds
from sessionizer.spark.ingest.source import read_source
from sessionizer.spark.ingest.unreadable_files import UnreadableFiles, drop_files

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.excluded_ranges import Records
    from sessionizer.spark.ingest.guard import Guarded
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class SourceMemory:
    """Memory that a lineage has of its source.

    ``unreadable``: files that are not read. ``excluded_ranges``: their rows are quarantined. ``schema_ids``: ids in
    values that the registry is asked for, beside those of its subject. None: an unknown id is final.
    """

    unreadable: tuple[str, ...] = ()
    excluded_ranges: ExcludedRanges = NOTHING_EXCLUDED
    schema_ids: frozenset[int] | None = None

    @classmethod
    def of(cls, home: StreamHome, lineage: str | None) -> SourceMemory:
        """Read it for ``lineage``. Without one it is empty, but asks for unknown ids. Raises DamagedFile."""
        if lineage is None:
            return cls(schema_ids=frozenset())
        unreadable = tuple(UnreadableFiles.of(home, lineage).uris())
        return cls(unreadable, read_excluded_ranges(home, lineage), SchemaIds.of(home, lineage).asked())


NOTHING_REMEMBERED: Final = SourceMemory()


def read_guarded_source(
    spark: SparkSession, spec: StreamSpec, platform_home: Path, memory: SourceMemory = NOTHING_REMEMBERED
) -> Guarded:
    """Return the guarded rows of the source, by what the lineage remembers of it.

    Relative paths of the spec resolve against ``platform_home``. Raises InvalidSpec if the spec does not fit.
    """
    limit, ids = spec.rules.max_event_bytes, memory.schema_ids
    rows = read_source(spark, spec.source, platform_home, limit, stream=True, schema_ids=ids)
    return guard(mark_excluded(drop_files(rows, memory.unreadable), memory.excluded_ranges, spec.source.format), spec)


def mark_excluded(rows: DataFrame, excluded_ranges: ExcludedRanges, source: str) -> DataFrame:
    """Mark source ``rows`` of an excluded range with ``left_out`` as their fault, in place of any other fault.

    Returns the same object if nothing is excluded, so that nothing of the query changes.
    """
    if not excluded_ranges:
        return rows
    if source == "delta":  # its stream has no column of metadata
        rows = rows.withColumn(POSITION, F.input_file_name())
    held = reduce(operator.or_, _conditions(excluded_ranges))
    return rows.withColumn(FAULT, F.when(held, F.lit(QuarantineReason.EXCLUDED.value)).otherwise(F.col(FAULT)))


def _conditions(excluded_ranges: ExcludedRanges) -> list[Column]:
    """Write ``ExcludedRanges.holds`` in SQL: a condition each for the files and for each range of records."""
    files = [form for uri in excluded_ranges.files for form in _forms(uri)]
    of_files = [F.col(POSITION).isin(*files)] if files else []
    return [*of_files, *map(_match_records, excluded_ranges.records)]


def _forms(uri: str) -> tuple[str, ...]:
    """Return the names of a file in Spark's metadata column and in ``input_file_name``."""
    return (uri, uri.replace("file:/", "file:///", 1)) if uri.startswith("file:/") else (uri,)


def _match_records(records: Records) -> Column:
    offset = F.substring_index(POSITION, "-", -1)
    of_partition = F.col(POSITION) == F.concat(F.lit(f"{records.topic}-{records.partition}-"), offset)
    number = offset.cast("bigint")
    return of_partition & (number >= records.first) & (number < records.end)
