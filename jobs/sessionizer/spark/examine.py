"""The spec against its source: everything that can be wrong with a stream, found before anything of it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from sessionizer.control.table_places import located
from sessionizer.core.table_rows import NOWHERE, session_rows
from sessionizer.spark import rows, tables
from sessionizer.spark.guard import Guarded, guard
from sessionizer.spark.measures import measure_types
from sessionizer.spark.source import read_source
from sessionizer.spark.timeout_table import check_timeout_table
from sessionizer.spark.unpack import unpack
from sessionizer.spark.unreadable import without

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.spec.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class Examined:
    """A spec that fits its source: the stream's ``guarded`` rows and the columns that its ``measures`` add."""

    guarded: Guarded
    measures: StructType

    def shapes(self, spec: StreamSpec) -> tuple[tables.TableShape, ...]:
        """The tables that the stream writes."""
        return (
            tables.sessions_shape(spec, self.guarded.payload_fields, self.measures),
            tables.quarantine_shape(),
            tables.late_events_shape(self.guarded.payload),
        )


def examine(spark: SparkSession, spec: StreamSpec, platform_home: Path, unreadable: Sequence[str] = ()) -> Examined:
    """Resolve every expression of ``spec`` against its source. Writes nothing, reads no event.

    ``unreadable``: files of the source to leave out. Raises InvalidSpec, naming the field.
    """
    source = read_source(spark, spec.source, platform_home, spec.rules.max_event_bytes, stream=True)
    guarded = guard(spark, without(source, unreadable), spec)
    measures = types_of_measures(spark, spec, guarded)
    if spec.rules.client_timeouts_table is not None:
        check_timeout_table(spark, located(spec.rules.client_timeouts_table, platform_home))
    return Examined(guarded, measures)


def types_of_measures(spark: SparkSession, spec: StreamSpec, guarded: Guarded) -> StructType:
    """The columns that the spec's measures add. Raises InvalidSpec."""
    if not spec.measures:
        return StructType()
    nothing = spark.createDataFrame([], rows.EMITTED)
    shape = session_rows(guarded.payload_fields, keep_events=True)
    return measure_types(unpack(nothing, rows.SESSIONS, shape, NOWHERE), spec.measures)
