"""Open events of a committed batch, in Spark: read from the state, from logs of groups, or from emitted rows.

Spark's own reader of states says what each variable held after the batch. A lineage of ours has one operator, whose
variables ``query.processor`` describes. A lineage with as many key groups takes the logs over as they are. For another
number the events in them are packed anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sessionizer.core.definition.rules import Clock
from sessionizer.core.key_group.cutting import read_kept_timeouts
from sessionizer.core.wire import rows
from sessionizer.core.wire.alignment import unite_schemas
from sessionizer.core.wire.canonical import canonical_schema, event_columns, read_typed_rows
from sessionizer.core.wire.codec import decode, decode_log, drop_deleted, open_blob, split_log
from sessionizer.core.wire.erased_keys import ErasedKeys
from sessionizer.core.wire.rows import INITIAL, REVISION
from sessionizer.core.wire.schema import event_schema, group_labels, group_numbers
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.lineage.kept_spec import KeptTypes
from sessionizer.migrations.graph import bring_to
from sessionizer.spark.ingest.guard import arrow_fields, struct_of
from sessionizer.spark.query.processor import Output
from sessionizer.spark.sinks.write import few_blobs_at_a_time
from sessionizer.state.lineages.committed_batch import Blobs, CommittedBatch


def tabulate_output(output: Output) -> pa.Table:
    """Return an output as a table by ``rows.EMITTED``."""
    columns = {"kind": pa.string(), "key_group": pa.int32(), "row_count": pa.int32(), "blob": pa.binary()}
    return pa.Table.from_pylist([row.asDict() for row in output.rows], pa.schema(columns))


def select_open_events(emitted: DataFrame, shape: pa.Schema) -> DataFrame:
    """Return the emitted open events, whose columns are those of ``shape``."""

    def open_blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column("blob"):
                found = open_blob(blob.as_buffer()).read_all()
                yield from (found if found.schema.equals(shape) else found.cast(shape)).to_batches()

    blobs = emitted.where(F.col("kind") == rows.OPEN_EVENTS).select("blob")
    return blobs.mapInArrow(open_blobs, from_arrow_schema(shape, prefer_timestamp_ntz=False))


def admissions_in(emitted: DataFrame) -> list[str]:
    """Return the different admissions of emitted open events whose admissions are numbers."""
    blobs = emitted.where(F.col("kind") == rows.ADMISSIONS).select("blob").distinct().collect()
    return sorted({text for row in blobs for text in json.loads(bytes(row.blob))})


def count_by_kind(emitted: DataFrame) -> dict[str, int]:
    """Return the number of rows of each kind."""
    counted = emitted.groupBy("kind").agg(F.sum("row_count").alias("rows")).collect()
    return {row["kind"]: row["rows"] for row in counted}


ROWS_AT_A_TIME: Final = 65_536


@dataclass(frozen=True, slots=True)
class KeptState:
    """The state after a batch. ``events``: columns for all open events. ``revision``: of the blobs."""

    checkpoint: DataPath
    batch_id: int
    key_groups: int
    events: pa.Schema
    revision: str = REVISION


def describe_state(committed: CommittedBatch) -> KeptState:
    """Describe the state of a stream after a batch that is kept. Raises ``pa.ArrowTypeError`` for clashing types."""
    return KeptState(
        checkpoint=committed.checkpoint,
        batch_id=committed.batch_id,
        key_groups=int(committed.spec["key_groups"]),
        events=open_event_schema(committed.kept),
        revision=committed.record.revision,
    )


def open_event_schema(kept: KeptTypes) -> pa.Schema:
    """Return columns for events of every type in ``kept``. Raises ``pa.ArrowTypeError`` for clashing types."""
    return event_schema(open_payload(kept), Clock(kept.time_mode))


def open_payload(kept: KeptTypes) -> list[pa.Field]:
    """Return the payload's columns in the widest types. Raises ``pa.ArrowTypeError`` for clashing ones."""
    columns = (
        [pa.schema(arrow_fields(StructType.fromJson(struct_of(name, kind)))) for kind in types]
        for name, types in kept.payload.items()
    )
    return [reduce(unite_schemas, each).field(0) for each in columns]


def read_open_events(spark: SparkSession, state: KeptState) -> DataFrame:
    """Read every open event, by ``canonical_schema``. Evaluate it in ``reading_state``."""
    return open_events_of(log_blobs(spark, state), state.key_groups, state.events)


def read_at_head(spark: SparkSession, state: KeptState) -> DataFrame:
    """Read every open event as ``read_open_events`` does, at the revision of this release. Raises UnknownRevision."""
    return bring_to_head(read_open_events(spark, state), state.revision, state.events)


def bring_to_head(open_events: DataFrame, revision: str, events: pa.Schema) -> DataFrame:
    """Bring canonical open events of ``revision``, with the columns ``events``, to the head. Raises UnknownRevision."""
    if revision == REVISION:
        return open_events
    after = bring_to(canonical_schema(events).empty_table(), revision).schema

    def bring(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from bring_to(pa.Table.from_batches([batch]), revision).to_batches()

    return open_events.mapInArrow(bring, from_arrow_schema(after, prefer_timestamp_ntz=False))


def open_events_of(logs: DataFrame, key_groups: int, events: pa.Schema) -> DataFrame:
    """Open ``logs`` by ``log_blobs``. ``events``: columns for all. Call it in ``few_blobs_at_a_time``."""
    numbers = group_numbers(key_groups)

    def open_log(label: int, blobs: list[bytes]) -> Iterator[pa.RecordBatch]:
        yield from read_typed_rows(decode_log(blobs), numbers[label], events).to_batches(max_chunksize=ROWS_AT_A_TIME)

    return map_logs(logs, open_log, from_arrow_schema(canonical_schema(events), prefer_timestamp_ntz=False))


def drop_erased_events(open_events: DataFrame, erased: ErasedKeys) -> DataFrame:
    """Return canonical open events without those of ``erased`` keys."""

    def drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield erased.clean(event_columns(batch)).rename_columns(batch.schema.names)

    return open_events.mapInArrow(drop, open_events.schema)


def drop_erased_from_logs(logs: DataFrame, erased: ErasedKeys) -> DataFrame:
    """Return logs in the form of ``log_blobs``, by ``rows.INITIAL``, without the events of ``erased`` keys."""
    return map_logs(logs, lambda label, blobs: log_rows(label, erased.clean_log(blobs)), INITIAL)


def count_erased_in_logs(logs: DataFrame, erased: ErasedKeys, *, with_deleted: bool = False) -> int:
    """Count the events of ``erased`` keys in logs by ``log_blobs``, also deleted ones if ``with_deleted``."""

    def count(_: int, blobs: list[bytes]) -> Iterator[pa.RecordBatch]:
        log = [decode(blob) for blob in blobs]
        tables = split_log(log).tables if with_deleted else drop_deleted(log)
        found = (erased.find_in_events(table, with_redacted=True) for table in tables)
        events = sum(pc.sum(mask).as_py() for mask in found if mask is not None)
        yield pa.RecordBatch.from_pydict({"events": pa.array([events], pa.int64())})

    total = map_logs(logs, count, "events bigint").agg(F.coalesce(F.sum("events"), F.lit(0)))
    return int(total.collect()[0][0])


def log_blobs(spark: SparkSession, state: KeptState) -> DataFrame:
    """Read the logs of all groups: ``label`` and ``blob``, those of a group together and in order."""
    return _variable(spark, state, "log").selectExpr("key.key_group as label", "list_element.blob as blob")


def read_state_timeouts(spark: SparkSession, state: KeptState) -> Mapping[str, int]:
    """Read the changed timeouts (ms) by client. Raises ValueError if groups keep different ones."""
    kept = _variable(spark, state, "timeouts_fingerprint")
    rows = kept.selectExpr("key.key_group label", "value.fingerprint").collect()
    if not rows:
        return {}
    fingerprints = {bytes(row.fingerprint) for row in rows}
    if len(fingerprints) > 1 or len(rows) != state.key_groups:
        raise ValueError(f"of {state.key_groups} key groups {len(rows)} keep timeouts, of {len(fingerprints)} kinds")
    of_one = _variable(spark, state, "timeouts").where(f"key.key_group = {rows[0].label}")
    (found,) = of_one.selectExpr("value.changes").collect()
    return read_kept_timeouts(fingerprints.pop(), lambda: bytes(found.changes))


@contextmanager
def reading_state(spark: SparkSession) -> Iterator[None]:
    """Enable Spark's reader of states for the block, and bring its rows to Python a few blobs at a time."""
    # a reader asks the coordinator of running queries, which a session has from when it was first asked for its own;
    # to have it not ask is no way: no query would run meanwhile (``forceSnapshotUploadOnLag``)
    _ = spark.streams.active
    with few_blobs_at_a_time(spark):
        yield


def _variable(spark: SparkSession, state: KeptState, name: str) -> DataFrame:
    reader = spark.read.format("statestore").option("stateVarName", name).option("batchId", state.batch_id)
    # a row for each element, in the order of the list: a list as one row would have to fit into memory thrice
    return reader.option("flattenCollectionTypes", "true").load(uri_of(state.checkpoint))


def map_logs(
    logs: DataFrame, change: Callable[[int, list[bytes]], Iterable[pa.RecordBatch]], shape: str | StructType
) -> DataFrame:
    """Return what ``change`` makes of each group's label and blobs, oldest first. ``logs``: by ``log_blobs``."""

    def change_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        labelled = (
            row
            for batch in batches
            for row in zip(batch.column("label").to_pylist(), batch.column("blob").to_pylist(), strict=True)
        )
        for label, found in groupby(labelled, key=lambda row: row[0]):
            yield from change(label, [blob for _, blob in found])

    return logs.mapInArrow(change_all, shape)


@dataclass(frozen=True, slots=True)
class FirstLog:
    """The first logs of key groups: ``rows`` of ``rows.INITIAL``, and the expected ``blobs`` of each group."""

    rows: DataFrame
    blobs: Mapping[int, Blobs]


def keep_logs(spark: SparkSession, state: KeptState) -> FirstLog:
    """Return the blobs of ``state`` as they are. Evaluate it in ``reading_state``."""
    return FirstLog(map_logs(log_blobs(spark, state), log_rows, INITIAL), digest_blobs(spark, state))


def digest_blobs(spark: SparkSession, state: KeptState) -> Mapping[int, Blobs]:
    """Return the SHA-256 of each blob, in order, by the number of its key group. Call it in ``reading_state``."""
    placed = log_blobs(spark, state).select(
        "label", F.monotonically_increasing_id().alias("place"), F.sha2("blob", 256).alias("digest")
    )
    return group_blobs(((row.label, row.place, row.digest) for row in placed.collect()), state.key_groups)


def number_groups(rows: DataFrame, key_groups: int) -> DataFrame:
    """Return rows by ``rows.INITIAL`` with the numbers of groups in place of the labels, which follow from them."""
    numbers = F.create_map(*(F.lit(each) for pair in group_numbers(key_groups).items() for each in pair))
    return rows.withColumn("key_group", numbers[F.col("key_group")])


def label_groups(rows: DataFrame, key_groups: int) -> DataFrame:
    """Return the input of ``number_groups``: labels in place of numbers."""
    labels = F.array(*(F.lit(int(label)) for label in group_labels(key_groups)))
    return rows.withColumn("key_group", F.get(labels, F.col("key_group")))


def whole_logs(rows: DataFrame, partitions: int) -> DataFrame:
    """Return rows by ``rows.INITIAL`` as ``log_blobs`` has them: those of a group together and in order."""
    spread = rows.repartition(partitions, "key_group").sortWithinPartitions("key_group", "number")
    return spread.select(F.col("key_group").alias("label"), "blob")


def first_log_of(rows: DataFrame, key_groups: int) -> FirstLog:
    """Return the first logs of groups whose logs are ``rows`` of ``rows.INITIAL``."""
    placed = rows.select("key_group", "number", F.sha2("blob", 256).alias("digest")).collect()
    return FirstLog(rows, group_blobs(((row.key_group, row.number, row.digest) for row in placed), key_groups))


def log_rows(label: int, blobs: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    """Yield the blobs of a group's log by ``rows.INITIAL``, one at a time."""
    for number, blob in enumerate(blobs):
        places = [pa.array([each], pa.int32()) for each in (label, number, len(blobs))]
        yield pa.record_batch([*places, pa.array([blob], pa.binary())], names=["key_group", "number", "of", "blob"])


def group_blobs(placed: Iterable[tuple[int, int, str]], key_groups: int) -> dict[int, Blobs]:
    """Group the digests of blobs, in the order of their places, by the number of the group."""
    numbers = group_numbers(key_groups)
    found: dict[int, list[str]] = {}
    for label, _, digest in sorted(placed):
        found.setdefault(numbers[label], []).append(digest)
    return {group: tuple(digests) for group, digests in found.items()}
