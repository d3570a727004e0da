"""What the key groups of a new lineage begin with: blobs of open events, each group's in their order.

Groups that stay as they are take over the blobs of the state before. Others, and a state that comes as rows, are packed
anew: in Python, as the rows come, so that what is shuffled are blobs and not events. What was packed is unpacked again
at once, and each row must come back as it was.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import comes_back, log_of, taken
from sessionizer.core.wire.codec import decode, encode
from sessionizer.core.wire.group_labels import group_labels
from sessionizer.core.wire.rows import INITIAL
from sessionizer.home.data_root import uri_of
from sessionizer.spark.query.assembly import group_of
from sessionizer.spark.state.open_events import labelled_blobs, log_blobs
from sessionizer.state.lineages.handover import PackedGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.home.data_root import DataPath
    from sessionizer.spark.state.open_events import KeptState
    from sessionizer.state.lineages.handover import Blobs

_NEW_GROUP: Final = "new_key_group"
_SHARES: Final = f"{_NEW_GROUP} int, blob binary"
_PACKED: Final = f"{INITIAL}, events bigint, whole boolean"
_SPLIT_FROM_BYTES: Final = 2**26
"""So much is divided by groups at a time: the more, the fewer blobs there are of each."""


def carried_log(spark: SparkSession, state: KeptState) -> DataFrame:
    """Rows of ``rows.INITIAL``: the blobs of ``state`` as they are; evaluate it in ``reading_state``."""
    return log_blobs(spark, state).mapInArrow(_numbered, INITIAL)


def blobs_in(spark: SparkSession, state: KeptState) -> Mapping[int, Blobs]:
    """The SHA-256 of each blob, in order, of each key group that has any, by its number; in ``reading_state``."""
    placed = log_blobs(spark, state).select(
        "label", F.monotonically_increasing_id().alias("place"), F.sha2("blob", 256).alias("digest")
    )
    return _by_group(((row.label, row.place, row.digest) for row in placed.collect()), state.key_groups)


def pack(open_events: DataFrame, key_groups: int, folder: DataPath) -> None:
    """Write what so many key groups begin with into ``folder``: the canonical ``open_events``, by their keys.

    A group is opened whole in one Python worker, as in a merge.
    """
    grouped = open_events.withColumn(_NEW_GROUP, group_of(F.col(schema.KEY), key_groups))
    shares = grouped.mapInArrow(_divided, _SHARES)
    packed = shares.groupBy(_NEW_GROUP).applyInArrow(_packer(key_groups), _PACKED)
    packed.write.option("compression", "none").parquet(uri_of(folder))


def packed_log(spark: SparkSession, folder: DataPath) -> DataFrame:
    """What ``pack`` has written, as rows of ``rows.INITIAL``."""
    return spark.read.schema(INITIAL).parquet(uri_of(folder))


def packed_groups(spark: SparkSession, folder: DataPath, key_groups: int) -> Mapping[int, PackedGroup]:
    """What each key group that has anything was packed to, by its number."""
    rows = spark.read.schema(_PACKED).parquet(uri_of(folder))
    rows = rows.select("key_group", "number", "events", "whole", F.sha2("blob", 256).alias("digest"))
    found = rows.collect()
    blobs = _by_group(((row.key_group, row.number, row.digest) for row in found), key_groups)
    numbers = _numbers(key_groups)
    events = dict.fromkeys(blobs, 0)
    whole = dict.fromkeys(blobs, True)
    for row in found:
        events[numbers[row.key_group]] += row.events
        whole[numbers[row.key_group]] &= row.whole
    return {group: PackedGroup(events[group], whole[group], blobs[group]) for group in blobs}


def events_by_key(open_events: DataFrame, key_groups: int) -> dict[int, int]:
    """How many open events each of so many ``key_groups`` must hold, by the keys of canonical rows."""
    counted = open_events.groupBy(group_of(F.col(schema.KEY), key_groups).alias("of")).agg(F.count("*").alias("events"))
    return {row.of: row.events for row in counted.collect()}


def _numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The blobs of a partition, where those of a group are together and in order, with their places."""
    for label, found in groupby(labelled_blobs(batches), key=lambda each: each[0]):
        blobs = [blob for _, blob in found]
        for number, blob in enumerate(blobs):
            yield _row(label, number, len(blobs), blob)


def _row(label: int, number: int, of: int, blob: bytes) -> pa.RecordBatch:
    places = [pa.array([each], pa.int32()) for each in (label, number, of)]
    return pa.record_batch([*places, pa.array([blob], pa.binary())], names=["key_group", "number", "of", "blob"])


def _divided(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Canonical rows with their new group, as blobs of the rows of one group each."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.get_total_buffer_size()
        if size >= _SPLIT_FROM_BYTES:
            yield from _shares(waiting)
            waiting, size = [], 0
    if waiting:
        yield from _shares(waiting)


def _shares(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = pa.Table.from_batches(batches).combine_chunks()
    groups = rows.column(_NEW_GROUP).to_numpy()
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    rows = rows.drop_columns([_NEW_GROUP])
    for positions in np.split(order, starts[1:]):
        share = encode(taken(rows, positions).combine_chunks())
        columns = [pa.array([groups[positions[0]]], pa.int32()), pa.array([share], pa.binary())]
        yield pa.record_batch(columns, names=[_NEW_GROUP, "blob"])


def _packer(key_groups: int) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    def pack_group(key: tuple[pa.Scalar, ...], shares: pa.Table) -> pa.Table:
        label = int(group_labels(key_groups)[key[0].as_py()])
        rows = pa.concat_tables([decode(blob) for chunk in shares.column("blob").chunks for blob in chunk.to_pylist()])
        blobs = [encode(table.combine_chunks()) for table in log_of(rows)]
        log = [decode(blob) for blob in blobs]
        packed = pa.Table.from_batches([_row(label, number, len(blobs), blob) for number, blob in enumerate(blobs)])
        events = pa.array([table.num_rows for table in log], pa.int64())
        return packed.append_column("events", events).append_column("whole", pa.repeat(comes_back(rows, log), len(log)))

    return pack_group


def _by_group(placed: Iterable[tuple[int, int, str]], key_groups: int) -> dict[int, Blobs]:
    """Of label, place and digest of each blob the digests in order, by the number of the group."""
    numbers = _numbers(key_groups)
    found: dict[int, list[str]] = {}
    for label, _, digest in sorted(placed):
        found.setdefault(numbers[label], []).append(digest)
    return {group: tuple(digests) for group, digests in found.items()}


def _numbers(key_groups: int) -> dict[int, int]:
    """The number of each group, by its label."""
    return {label: number for number, label in enumerate(group_labels(key_groups).tolist())}
