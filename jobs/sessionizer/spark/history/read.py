"""A stream's history on disk, through its mapping and the guard, to sessions at once: ``sessionizer history``.

It is taken as the first batch of a stream: final sessions leave, open events stay. The same functions decide as in the
stream (``core.key_group``). Keys are divided into as many shares as the history needs. Each share is taken at once in
one Python worker, as a key group is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.core.definition.rules import NEVER_MS, Clock, SessionRules
from sessionizer.core.key_group.append_or_merge import NO_PLAN, GroupChanges, admit
from sessionizer.core.key_group.merging import merge
from sessionizer.core.key_group.table_rows import NOWHERE, session_rows
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.canonical import canonical_schema, read_typed_rows
from sessionizer.core.wire.codec import pieces
from sessionizer.errors import InvalidSpec
from sessionizer.home.roots import resolve_place
from sessionizer.spark.history.history_rows import find_in_folder, read_history_rows
from sessionizer.spark.ingest.guard import EVENT_TIME, REASON, Guarded
from sessionizer.spark.ingest.punctuation import check_timeout_table, read_timeout_table
from sessionizer.spark.query.assembly import group_of, rules_of
from sessionizer.spark.query.processor import Output
from sessionizer.spark.sinks.examine import types_of_measures
from sessionizer.spark.sinks.measures import GuardedAggregates, add_measures
from sessionizer.spark.sinks.write import unpack
from sessionizer.spark.state.open_events import select_open_events, tabulate_output
from sessionizer.stream_spec.document.names import SESSION_FACTS
from sessionizer.stream_spec.document.stream import StreamSpec

EVENTS_PER_SHARE: Final = 100_000
_SHARE: Final = "share"
_NOBODY_IS_LATE: Final = -NEVER_MS
"""Watermark (epoch ms) at which no event of a history is late."""


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """Figures of guarded rows: number of events, the latest moment in one of them (epoch ms), refused rows."""

    events: int
    latest_ms: int | None
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """The first batch of a history, taken under ``rules``, with the watermark at ``watermark_ms`` (epoch ms).

    ``payload``: the columns that sessions have, ``kept``: those of the open events. ``keeps_later``: whether events
    after the watermark are taken too.
    """

    rules: SessionRules
    watermark_ms: int
    payload: schema.Payload
    kept: schema.Payload
    keeps_later: bool

    def taken(self, guarded: Guarded, events: int) -> DataFrame:
        """Return ``rows.EMITTED``: sessions, refused, conflicts, open events, counts. ``events``: how many, roughly."""
        columns = schema.event_schema(guarded.payload_fields, self.rules.clock).names
        share = group_of(F.col(schema.KEY), max(1, -(-events // EVENTS_PER_SHARE))).alias(_SHARE)
        numbered = guarded.rows.where(F.col(REASON).isNull()).select(*columns, share)

        def take(share: pa.Table) -> pa.Table:
            return self.take(share.drop_columns([_SHARE]).replace_schema_metadata(None))

        of_events = numbered.groupBy(_SHARE).applyInArrow(take, rows.EMITTED)
        refused = guarded.rows.where(F.col(REASON).isNotNull()).select(*rows.QUARANTINE_COLUMNS)
        return of_events.unionByName(refused.mapInArrow(_refuse, rows.EMITTED))

    def take(self, events: pa.Table) -> pa.Table:
        """Take a share: all ``events`` of its keys, by ``event_schema``."""
        output = Output(0)
        if not self.keeps_later:
            later = pc.greater(events.column(schema.CLOCK), self.watermark_ms)
            output.row(rows.LATER, pc.sum(later).as_py() or 0)
            events = events.filter(pc.invert(later))
        if events.num_rows:
            admitted = admit(events, _NOBODY_IS_LATE, self.rules, {}).admitted
            merged = merge([admitted], self.watermark_ms, self.rules, self.payload)
            output.step(GroupChanges(NO_PLAN, merged=merged))
            output.row(rows.OPEN_SESSIONS, merged.open.sessions)
            kept = schema.event_schema(self.kept, self.rules.clock)
            for piece in chain.from_iterable(map(pieces, merged.open_events)):
                output.table(rows.OPEN_EVENTS, read_typed_rows([piece], 0, kept))
        return tabulate_output(output)


def look(guarded: Guarded) -> SourceFigures:
    """Count guarded rows in one read of all of them."""
    latest_ms = F.max(F.unix_millis(EVENT_TIME)).alias("latest_ms")
    of_reason = guarded.rows.groupBy(REASON).agg(F.count("*").alias("rows"), latest_ms).collect()
    found = {row[REASON]: (row["rows"], row["latest_ms"]) for row in of_reason}
    events, latest = found.pop(None, (0, None))
    return SourceFigures(events, latest, {reason: rows for reason, (rows, _) in found.items()})


def _refuse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        output = Output(0)
        output.table(rows.QUARANTINE, batch)
        yield from tabulate_output(output).to_batches()


@dataclass(frozen=True, slots=True)
class EventHistory:
    """Guarded rows of a history, their ``figures``, and the rules that hold for all of it."""

    spec: StreamSpec
    rules: SessionRules
    guarded: Guarded
    figures: SourceFigures

    def take(self, until_ms: int | None) -> DataFrame:
        """Decide all as one batch, the watermark at ``until_ms`` or after all. Returns ``rows.EMITTED``, on disk."""
        payload = self.guarded.payload_fields
        first = FirstBatch(self.rules, NEVER_MS if until_ms is None else until_ms, payload, payload, keeps_later=True)
        return first.taken(self.guarded, self.figures.events).persist(StorageLevel.DISK_ONLY)

    def sessions(self, taken: DataFrame) -> DataFrame:
        """Return the columns of the table ``sessions``, without those that name a row's writer. Raises InvalidSpec."""
        found = unpack(taken, rows.SESSIONS, session_rows(self.guarded.payload_fields, keep_events=True), NOWHERE)
        measured = add_measures(found, GuardedAggregates.of(taken.sparkSession, self.spec.measures))
        return measured.select(*SESSION_FACTS, *self.spec.measures, *(["events"] if self.spec.sink.keep_events else []))

    def open_events(self, taken: DataFrame) -> DataFrame:
        """Return the events of the sessions that are not final, payload last. ``timeout_ms`` is the one in force."""
        shape = canonical_schema(schema.event_schema(self.guarded.payload_fields, self.rules.clock))
        payload = [F.col(f"{schema.PAYLOAD}_{name}").alias(name) for name in self.guarded.payload.names]
        at, own = F.timestamp_millis("clock_ms").alias(EVENT_TIME), (schema.EVENT_ID, schema.CLOSES, schema.TIMEOUT)
        brought = [F.struct(*payload).alias(schema.PAYLOAD)] if payload else []
        return select_open_events(taken, shape).select(schema.KEY, schema.CLIENT, at, *own, *brought)


def read_event_history(spark: SparkSession, spec: StreamSpec, folder: Path, platform_home: Path) -> EventHistory:
    """Read the history in ``folder``: files in the encoding of the stream's source, or a Delta table of its columns.

    Raises InvalidSpec if the spec does not fit it, and in processing_time mode, because a history does not say when its
    events arrived.
    """
    if spec.rules.clock.needs_arrivals:
        allowed = "event_time or none, because a history has no arrival times"
        raise InvalidSpec("rules.time_mode", spec.rules.clock.value, allowed)
    if (found := find_in_folder(folder, spec.source, "--input")) is None:
        raise InvalidSpec("--input", str(folder), "a folder of files, or a Delta table")
    guarded = read_history_rows(spark, spec, found[1], platform_home)
    types_of_measures(spark, spec, guarded)
    return history_of(spec, rules_in_force(spec, client_timeouts(spark, spec, platform_home)), guarded)


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
