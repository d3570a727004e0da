"""The streaming query: guarded rows and punctuations → pack → key groups, as one plan. Every caller gets it here.

A task's rows leave ``mapInArrow`` before the shuffle as one blob per key group, so that Python downstream never sees a
row alone. Packed rows are ``(key_group int, kind string, blob binary)``, the groups by their ``group_labels``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sessionizer.core.definition.rules import SessionRules
from sessionizer.core.key_group.append_or_merge import GroupRules
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.codec import encode, pieces
from sessionizer.core.wire.erased_keys import NOBODY_ERASED, ErasedKeys, refuse_erased
from sessionizer.core.wire.schema import Labels, group_labels
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.launch.driver_environment import plain
from sessionizer.spark.frozen_imports import freeze_imports
from sessionizer.spark.ingest.file_source.lines import RAW
from sessionizer.spark.ingest.guard import EVENT_TIME, Guarded
from sessionizer.spark.ingest.punctuation import GROUP, PUNCTUATION, read_punctuations
from sessionizer.spark.internals.planned_batches import follow_offset_log
from sessionizer.spark.query.processor import SessionProcessor
from sessionizer.spark.session import spare_small_rows
from sessionizer.stream_spec.document.stream import StreamSpec

PACKED = "key_group int, kind string, blob binary"
_Write: TypeAlias = "Callable[[DataFrame, int], None]"


def packer(
    event_columns: list[str], key_groups: int, erased: ErasedKeys = NOBODY_ERASED
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for ``mapInArrow``: guarded rows and punctuations in, packed rows without ``erased`` out."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        labels = group_labels(key_groups)
        for batch in batches:
            if batch.num_rows:
                yield from _pack(refuse_erased(batch, erased) if erased else batch, event_columns, labels)
        freeze_imports(pack.__name__)

    return pack


def _pack(batch: pa.RecordBatch, event_columns: list[str], labels: Labels) -> Iterator[pa.RecordBatch]:
    refused = batch.column("reason").is_valid()
    control = batch.column(PUNCTUATION).is_valid()
    if batch.column(PUNCTUATION).null_count < batch.num_rows:
        # to every group, because it moves a clock that they all share
        texts = [text.encode() for text in batch.filter(control).column(PUNCTUATION).to_pylist()]
        yield _pack_blobs(np.tile(labels, len(texts)), PUNCTUATION, [text for text in texts for _ in labels])
    if batch.column("reason").null_count < batch.num_rows:
        yield _blobs(batch.filter(refused), rows.QUARANTINE, rows.QUARANTINE_COLUMNS, labels)
    if batch.column("reason").null_count + batch.column(PUNCTUATION).null_count < 2 * batch.num_rows:
        batch = batch.filter(pc.invert(pc.or_(refused, control)))
    if batch.num_rows:
        yield _blobs(batch, rows.EVENTS, event_columns, labels)


def _blobs(batch: pa.RecordBatch, kind: str, columns: list[str], labels: Labels) -> pa.RecordBatch:
    group = batch.column(GROUP).to_numpy(zero_copy_only=False).astype(np.uint16)
    order = np.argsort(group, kind="stable")  # 16 bits: numpy sorts by radix
    ordered = pa.Table.from_batches([_nullable(batch.select(columns))]).take(pa.array(order)).combine_chunks()
    starts = np.concatenate([[0], np.flatnonzero(np.diff(group[order])) + 1])
    ends = np.append(starts[1:], len(order))
    shares = [list(pieces(ordered.slice(start, end - start))) for start, end in zip(starts, ends, strict=True)]
    of_groups = np.repeat(labels[group[order][starts]], [len(share) for share in shares])
    return _pack_blobs(of_groups, kind, [encode(piece) for share in shares for piece in share])


def _nullable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make every column nullable, as blobs must fit together, whether the batch has punctuations or not."""
    fields = [field.with_nullable(nullable=True) for field in batch.schema]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def _pack_blobs(groups: NDArray[np.int32], kind: str, blobs: list[bytes]) -> pa.RecordBatch:
    columns = [pa.array(groups), pa.array([kind] * len(blobs), pa.string()), pa.array(blobs, pa.binary())]
    return pa.record_batch(columns, names=[GROUP, "kind", "blob"])


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """A session query. ``emitted``: the unstarted stream of ``rows.EMITTED``, made of ``guarded`` rows."""

    emitted: DataFrame
    guarded: Guarded

    def start(
        self, write: _Write, checkpoint: DataPath, every_ms: int | None, name: str | None = None
    ) -> StreamingQuery:
        """Start it. ``write`` gets the emitted rows of each batch, unevaluated, and the batch's id.

        A batch begins ``every_ms``. Without that the query ends by itself when it has read all that the source has now.
        """
        writer = self._writer(write, checkpoint)
        writer = writer.queryName(name) if name else writer
        if every_ms is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{every_ms} milliseconds").start()

    def run_planned_batches(self, write: _Write, checkpoint: DataPath, plan_next: Callable[[], bool]) -> None:
        """Run the batches that each call of ``plan_next`` puts into the offset log, until it returns False."""
        if plain():
            while plan_next():
                self._writer(write, checkpoint).trigger(once=True).start().awaitTermination()
            return

        follow = cache(partial(follow_offset_log, self.emitted.sparkSession, plan_next))

        def write_and_follow(emitted: DataFrame, batch_id: int) -> None:
            follow()
            write(emitted, batch_id)

        if plan_next():
            query = self._writer(write_and_follow, checkpoint).trigger(processingTime="0 seconds").start()
            try:
                query.awaitTermination()
            finally:
                query.stop()

    def _writer(self, write: _Write, checkpoint: DataPath) -> DataStreamWriter:
        return self.emitted.writeStream.foreachBatch(write).option("checkpointLocation", uri_of(checkpoint))


def session_query(
    spark: SparkSession, spec: StreamSpec, guarded: Guarded, punctuations: DataPath, initial: DataFrame | None = None
) -> SessionQuery:
    """Build the query. ``initial``: rows of ``rows.INITIAL``, if its checkpoint has no state of the key groups yet."""
    rules, payload = rules_of(spec), guarded.payload_fields
    columns = schema.event_schema(payload, rules.clock).names
    group = group_of(F.coalesce(schema.KEY, RAW), spec.key_groups).alias(GROUP)
    events = guarded.rows.select("*", group, F.lit(None).cast("string").alias(PUNCTUATION))
    all_rows = events.unionByName(read_punctuations(spark, punctuations, rules.watermark_delay_ms, events.schema))
    if rules.clock.has_watermark:
        all_rows = all_rows.withWatermark(EVENT_TIME, f"{rules.watermark_delay_ms} milliseconds")
    spare_small_rows(spark, spec.rules.max_event_bytes)
    packed = all_rows.mapInArrow(packer(columns, spec.key_groups, guarded.erased), PACKED)
    emitted = packed.groupBy(GROUP).transformWithState(
        SessionProcessor(GroupRules(rules, payload, spec.key_groups, shows_events=bool(spec.measures))),
        rows.EMITTED,
        "append",
        "eventTime" if rules.clock.has_watermark else "processingTime",
        None if initial is None else initial.groupBy(GROUP),
    )
    return SessionQuery(emitted, guarded)


def group_of(key: Column, key_groups: int) -> Column:
    """Return the number of the key group that ``key`` belongs to."""
    return F.pmod(F.xxhash64(key), F.lit(key_groups)).cast("int")


def rules_of(spec: StreamSpec) -> SessionRules:
    """Return the rules of a spec that decide."""
    return SessionRules(
        clock=spec.rules.clock,
        watermark_delay_ms=spec.rules.watermark_delay_ms,
        gap_timeout_ms=spec.rules.gap_timeout_ms,
        client_timeouts_ms=dict(spec.rules.client_timeouts),
        caps=spec.rules.caps,
        emit_every_ms=spec.rules.emit_every_ms or 0,
    )
