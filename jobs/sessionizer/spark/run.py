"""One run of a stream's query inside a driver: built, started, fed with punctuations, drained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from sessionizer.spark import rows, tables
from sessionizer.spark.measures import measure_types
from sessionizer.spark.query import SessionQuery, session_query
from sessionizer.spark.sinks import Sinks
from sessionizer.spark.unpack import unpack_sessions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from sessionizer.control.stream_home import StreamHome
    from sessionizer.spark.gate import BatchGate
    from sessionizer.spark.open_sessions import OpenSessions
    from sessionizer.spark.vital_signs import VitalSigns
    from sessionizer.spec.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class Run:
    """Everything one streaming query needs; ``permit`` raises LeaseLost once another driver took over."""

    spark: SparkSession
    spec: StreamSpec
    platform_home: Path
    home: StreamHome
    lineage: str
    gate: BatchGate
    signs: VitalSigns
    open_sessions: OpenSessions
    permit: Callable[[], None]

    def build(self) -> tuple[SessionQuery, Sinks]:
        """The query and its tables, created where missing. Raises InvalidSpec before anything is written."""
        query = session_query(self.spark, self.spec, self.platform_home, self.home.punctuations(self.lineage))
        payload = query.guarded.payload_fields
        measures = self._measure_types(query)
        locations = table_locations(self.spec, self.platform_home, self.home)
        for shape in (
            tables.sessions_shape(self.spec, payload, measures),
            tables.quarantine_shape(),
            tables.late_events_shape(query.guarded.payload),
        ):
            tables.ensure_table(self.spark, shape, locations[shape.name])
        sinks = Sinks(self.lineage, locations, payload, self.spec.measures, self.spec.sink.keep_events, self.permit)
        return query, sinks

    def _measure_types(self, query: SessionQuery) -> StructType:
        if not self.spec.measures:
            return StructType()
        nothing = self.spark.createDataFrame([], rows.EMITTED)
        return measure_types(unpack_sessions(nothing, query.guarded.payload_fields), self.spec.measures)

    def start(self, query: SessionQuery, sinks: Sinks, *, until_caught_up: bool) -> StreamingQuery:
        """Start the query; with ``until_caught_up`` it ends by itself when it has read what there is now."""

        def write(emitted: DataFrame, batch_id: int) -> None:
            with self.gate.batch():
                self._write(sinks, emitted, batch_id)

        writer = query.emitted.writeStream.queryName(self.spec.name).foreachBatch(write)
        writer = writer.option("checkpointLocation", str(self.home.checkpoint(self.lineage)))
        if until_caught_up:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self.spec.trigger_interval_ms} milliseconds")
        return writer.start()

    def _write(self, sinks: Sinks, emitted: DataFrame, batch_id: int) -> None:
        self.permit()
        counts = sinks.write(emitted, batch_id)
        self.open_sessions.learn(counts.open_of_group)
        self.signs.wrote(counts, self.open_sessions.total)


def table_locations(spec: StreamSpec, platform_home: Path, home: StreamHome) -> dict[str, str]:
    """Where each table of the stream is."""
    names = (tables.SESSIONS, tables.QUARANTINE, tables.LATE_EVENTS, tables.SESSIONS_DAILY)
    if spec.sink.path is None:
        return {name: str(home.table(name)) for name in names}
    base = spec.sink.path if "://" in spec.sink.path else str(platform_home / spec.sink.path)
    return {name: f"{base}/{name}" for name in names}
