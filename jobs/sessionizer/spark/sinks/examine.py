"""Check of the spec against its source: every fault of a stream is found before anything of it is made.

A lineage must be able to go on by a changed spec (docs/adr/0043). Most changes hold from the next batch on. Changes
that would lose events are refused. Some alter a fact of the checkpoint, such as the number of key groups or the source.
Others alter a batch that was cut short after it had written: its rows are in a table, and its state is not committed.
Delta skips rows that a table has, while the state would follow the new spec.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sessionizer.checkpoint.log_entries import read_begun_batch, read_last_commit
from sessionizer.core.key_group.table_rows import NOWHERE, session_rows
from sessionizer.core.wire import rows
from sessionizer.deployment.running_spec import RunningSpec, require_continuable, require_whole
from sessionizer.deployment.upgrade_plan import require_no_loss
from sessionizer.home.roots import resolve_place
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.ingest.guard import Guarded
from sessionizer.spark.ingest.punctuation import check_timeout_table
from sessionizer.spark.ingest.source import NOTHING_REMEMBERED, SourceMemory, read_guarded_source
from sessionizer.spark.internals.delta_log import last_version
from sessionizer.spark.sinks import table_shapes
from sessionizer.spark.sinks.measures import measure_types
from sessionizer.spark.sinks.write import unpack
from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class Examined:
    """A spec that fits its source: the stream's ``guarded`` rows and the columns that its ``measures`` add."""

    guarded: Guarded
    measures: StructType

    def shapes(self, spec: StreamSpec) -> tuple[table_shapes.TableShape, ...]:
        """Return the tables that the stream writes."""
        sessions = table_shapes.sessions_shape(spec, self.guarded.payload_fields, self.measures)
        return sessions, table_shapes.quarantine_shape(), table_shapes.late_events_shape(self.guarded.payload)


def examine(
    spark: SparkSession, spec: StreamSpec, platform_home: Path, memory: SourceMemory = NOTHING_REMEMBERED
) -> Examined:
    """Resolve every expression of ``spec`` against its source. Reads no event. Raises InvalidSpec, naming the field."""
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


def half_written_batch(spark: SparkSession, home: StreamHome, lineage: str, tables: Iterable[str]) -> int | None:
    """Return the batch that one of ``tables`` (locations) has rows of and the checkpoint no commit, or None."""
    begun = read_begun_batch(home.checkpoint(lineage))
    if begun is None or begun == read_last_commit(home.checkpoint(lineage)):
        return None
    return begun if any(last_version(spark, table, lineage) >= begun for table in tables) else None


def require_continuity(spark: SparkSession, running: RunningSpec, home: StreamHome, lineage: str) -> None:
    """Raise InvalidSpec, or NotAccepted for lacks in open sessions, if ``lineage`` cannot go on by the spec."""
    if running.before is None or not running.applied or read_begun_batch(home.checkpoint(lineage)) is None:
        return
    require_continuable(home.name, running.applied)
    require_no_loss(home, lineage, running.spec)
    # the tables that the lineage wrote so far: by the new spec it may write others
    folder = running.before.get("sink.path", running.spec.sink.path)
    require_whole(running.applied, half_written_batch(spark, home, lineage, home.streamed_locations(folder).values()))
