"""A stream's history on disk, through its mapping and the guard, to sessions at once: ``sessionizer history``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from sessionizer.core.definition.rules import NEVER_MS, Clock
from sessionizer.core.key_group.table_rows import NOWHERE, session_rows
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.canonical import canonical_schema
from sessionizer.errors import InvalidSpec
from sessionizer.home.roots import resolve_place
from sessionizer.spark.history.first_batch import FirstBatch, look
from sessionizer.spark.history.history_rows import find_in_folder, read_history_rows
from sessionizer.spark.ingest.guard import EVENT_TIME
from sessionizer.spark.ingest.timeout_table import check_timeout_table, read_timeout_table
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.sinks.examine import types_of_measures
from sessionizer.spark.sinks.guarded_aggregates import GuardedAggregates
from sessionizer.spark.sinks.measures import add_measures
from sessionizer.spark.sinks.unpack import unpack
from sessionizer.spark.state.emitted_rows import select_open_events
from sessionizer.stream_spec.document.names import SESSION_FACTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.core.definition.rules import SessionRules
    from sessionizer.spark.history.first_batch import SourceFigures
    from sessionizer.spark.ingest.guard import Guarded
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class EventHistory:
    """Guarded rows of a history, their ``figures``, and the rules that hold for all of it."""

    spec: StreamSpec
    rules: SessionRules
    guarded: Guarded
    figures: SourceFigures

    def take(self, until_ms: int | None) -> DataFrame:
        """Decide all events as one batch, with the watermark at ``until_ms`` (None: after every session's end).

        Returns rows of ``rows.EMITTED``, kept on disk because sessions and open events are read from them.
        """
        payload = self.guarded.payload_fields
        watermark_ms = NEVER_MS if until_ms is None else until_ms
        first = FirstBatch(self.rules, watermark_ms, payload, payload, keeps_later=True)
        return first.taken(self.guarded, self.figures.events).persist(StorageLevel.DISK_ONLY)

    def sessions(self, taken: DataFrame) -> DataFrame:
        """Return the columns of the table ``sessions``, without those that name a row's writer. Raises InvalidSpec."""
        shape = session_rows(self.guarded.payload_fields, keep_events=True)
        found = unpack(taken, rows.SESSIONS, shape, NOWHERE)
        measured = add_measures(found, GuardedAggregates.of(taken.sparkSession, self.spec.measures))
        kept = ["events"] if self.spec.sink.keep_events else []
        return measured.select(*SESSION_FACTS, *self.spec.measures, *kept)

    def open_events(self, taken: DataFrame) -> DataFrame:
        """Return the events of the sessions that are not final, payload last. ``timeout_ms`` is the one in force."""
        shape = canonical_schema(schema.event_schema(self.guarded.payload_fields, self.rules.clock))
        payload = [F.col(f"{schema.PAYLOAD}_{name}").alias(name) for name in self.guarded.payload.names]
        return select_open_events(taken, shape).select(
            schema.KEY,
            schema.CLIENT,
            F.timestamp_millis("clock_ms").alias(EVENT_TIME),
            schema.EVENT_ID,
            schema.CLOSES,
            schema.TIMEOUT,
            *([F.struct(*payload).alias(schema.PAYLOAD)] if payload else []),
        )


def read_event_history(spark: SparkSession, spec: StreamSpec, folder: Path, platform_home: Path) -> EventHistory:
    """Read the history in ``folder``: files in the encoding of the stream's source, or a Delta table of its columns.

    Raises InvalidSpec if the spec does not fit it, and in processing_time mode, because a history does not say when its
    events arrived.
    """
    if spec.rules.clock.needs_arrivals:
        allowed = "event_time or none, because a history has no arrival times"
        raise InvalidSpec("rules.time_mode", spec.rules.clock.value, allowed)
    found = find_in_folder(folder, spec.source, "--input")
    if found is None:
        raise InvalidSpec("--input", str(folder), "a folder of files, or a Delta table")
    guarded = read_history_rows(spark, spec, found[1], platform_home)
    types_of_measures(spark, spec, guarded)
    rules = rules_in_force(spec, client_timeouts(spark, spec, platform_home))
    return history_of(spec, rules, guarded)


def history_of(spec: StreamSpec, rules: SessionRules, guarded: Guarded) -> EventHistory:
    """Return guarded rows as a history. Without a clock of the stream, events are in the order of their own time."""
    if not rules.clock.has_gaps:
        own_time = {schema.CLOCK: F.col(schema.TIE), schema.TIMEOUT: F.lit(None).cast("bigint")}
        guarded = replace(guarded, rows=guarded.rows.withColumns(own_time))
        rules = replace(rules, clock=Clock.EVENT_TIME, gap_timeout_ms=NEVER_MS, client_timeouts_ms={})
    return EventHistory(spec, rules, guarded, look(guarded))


def rules_in_force(spec: StreamSpec, timeouts_ms: Mapping[str, int]) -> SessionRules:
    """Return the stream's rules, with the timeouts that its table of clients has now."""
    rules = rules_of(spec)
    return replace(rules, client_timeouts_ms={**rules.client_timeouts_ms, **timeouts_ms})


def client_timeouts(spark: SparkSession, spec: StreamSpec, platform_home: Path) -> dict[str, int]:
    """Read the timeouts (ms) in the table of clients, none if the spec names no table. Raises InvalidSpec."""
    if spec.rules.client_timeouts_table is None:
        return {}
    location = resolve_place(spec.rules.client_timeouts_table, platform_home)
    check_timeout_table(spark, location)
    return read_timeout_table(spark, location)
