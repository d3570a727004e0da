"""Check of the spec against its source: every fault of a stream is found before anything of it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from sessionizer.core.key_group.table_rows import NOWHERE, session_rows
from sessionizer.core.wire import rows
from sessionizer.home.roots import resolve_place
from sessionizer.spark.ingest.guarded_source import NOTHING_REMEMBERED, SourceMemory, read_guarded_source
from sessionizer.spark.ingest.timeout_table import check_timeout_table
from sessionizer.spark.sinks import table_shapes
from sessionizer.spark.sinks.measures import measure_types
from sessionizer.spark.sinks.unpack import unpack

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.spark.ingest.guard import Guarded
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class Examined:
    """A spec that fits its source: the stream's ``guarded`` rows and the columns that its ``measures`` add."""

    guarded: Guarded
    measures: StructType

    def shapes(self, spec: StreamSpec) -> tuple[table_shapes.TableShape, ...]:
        """Return the tables that the stream writes."""
        return (
            table_shapes.sessions_shape(spec, self.guarded.payload_fields, self.measures),
            table_shapes.quarantine_shape(),
            table_shapes.late_events_shape(self.guarded.payload),
        )


def examine(
    spark: SparkSession, spec: StreamSpec, platform_home: Path, memory: SourceMemory = NOTHING_REMEMBERED
) -> Examined:
    """Resolve every expression of ``spec`` against its source. Writes nothing, reads no event.

    ``memory``: what the lineage remembers of the source. Raises InvalidSpec, naming the field.
    """
    guarded = read_guarded_source(spark, spec, platform_home, memory)
    measures = types_of_measures(spark, spec, guarded)
    if spec.rules.client_timeouts_table is not None:
        check_timeout_table(spark, resolve_place(spec.rules.client_timeouts_table, platform_home))
    return Examined(guarded, measures)


def types_of_measures(spark: SparkSession, spec: StreamSpec, guarded: Guarded) -> StructType:
    """Return the columns that the spec's measures add. Raises InvalidSpec."""
    if not spec.measures:
        return StructType()
    nothing = spark.createDataFrame([], rows.EMITTED)
    shape = session_rows(guarded.payload_fields, keep_events=True)
    return measure_types(unpack(nothing, rows.SESSIONS, shape, NOWHERE), spec.measures)
