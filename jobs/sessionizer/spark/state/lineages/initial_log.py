"""What the key groups of a new lineage begin with: blobs of open events, each group's in their order.

Groups that stay as they are take over the blobs of the state before. Others, and a state that comes as rows, are packed
anew (``core.wire.packing``), so that what is shuffled are blobs and not events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from sessionizer.core.wire import schema
from sessionizer.core.wire.group_labels import group_labels, group_numbers
from sessionizer.core.wire.packing import packed, shares
from sessionizer.core.wire.rows import INITIAL
from sessionizer.errors import UnfaithfulState
from sessionizer.home.data_root import uri_of
from sessionizer.spark.query.assembly import group_of
from sessionizer.spark.state.open_events import log_blobs, logs_in
from sessionizer.state.lineages.handover import PackedGroup, lost_in_packing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.home.data_root import DataPath
    from sessionizer.spark.state.open_events import KeptState
    from sessionizer.state.lineages.handover import Blobs

_GROUP: Final = "new_key_group"
_SHARES: Final = f"{_GROUP} int, blob binary"
_PACKED: Final = f"{INITIAL}, events bigint, whole boolean"


@dataclass(frozen=True, slots=True)
class FirstLog:
    """What key groups begin with: ``rows`` of ``rows.INITIAL``, and the ``blobs`` of each that these must make."""

    rows: DataFrame
    blobs: Mapping[int, Blobs]


def carried(spark: SparkSession, state: KeptState) -> FirstLog:
    """The blobs of ``state`` as they are; evaluate it in ``reading_state``."""
    return FirstLog(log_blobs(spark, state).mapInArrow(_numbered, INITIAL), blobs_in(spark, state))


def packed_anew(
    spark: SparkSession, stream: str, open_events: DataFrame, key_groups: int, folder: DataPath
) -> FirstLog:
    """The canonical ``open_events`` in so many ``key_groups``, by their keys; they are packed into ``folder``.

    A group is opened whole in one Python worker, as in a merge. Raises UnfaithfulState where something got lost.
    """
    pack(open_events, key_groups, folder)
    found = _packed_groups(spark, folder, key_groups)
    lost = lost_in_packing(_events_by_key(open_events, key_groups), found)
    if lost is not None:
        raise UnfaithfulState(stream, lost)
    rows = spark.read.schema(INITIAL).parquet(uri_of(folder))
    return FirstLog(rows, {group: of.blobs for group, of in found.items()})


def blobs_in(spark: SparkSession, state: KeptState) -> Mapping[int, Blobs]:
    """The SHA-256 of each blob, in order, of each key group that has any, by its number; in ``reading_state``."""
    placed = log_blobs(spark, state).select(
        "label", F.monotonically_increasing_id().alias("place"), F.sha2("blob", 256).alias("digest")
    )
    return _by_group(((row.label, row.place, row.digest) for row in placed.collect()), state.key_groups)


def pack(open_events: DataFrame, key_groups: int, folder: DataPath) -> None:
    """Write the packed groups into ``folder``."""
    grouped = open_events.withColumn(_GROUP, group_of(F.col(schema.KEY), key_groups))
    packed_groups = grouped.mapInArrow(_divided, _SHARES).groupBy(_GROUP).applyInArrow(_packer(key_groups), _PACKED)
    packed_groups.write.option("compression", "none").parquet(uri_of(folder))


def _packed_groups(spark: SparkSession, folder: DataPath, key_groups: int) -> Mapping[int, PackedGroup]:
    """What each key group that has anything was packed to, by its number."""
    rows = spark.read.schema(_PACKED).parquet(uri_of(folder))
    found = rows.select("key_group", "number", "events", "whole", F.sha2("blob", 256).alias("digest")).collect()
    blobs = _by_group(((row.key_group, row.number, row.digest) for row in found), key_groups)
    numbers = group_numbers(key_groups)
    events, whole = dict.fromkeys(blobs, 0), dict.fromkeys(blobs, True)
    for row in found:
        events[numbers[row.key_group]] += row.events
        whole[numbers[row.key_group]] &= row.whole
    return {group: PackedGroup(events[group], whole[group], blobs[group]) for group in blobs}


def _events_by_key(open_events: DataFrame, key_groups: int) -> dict[int, int]:
    """How many open events each of so many ``key_groups`` must hold, by the keys of canonical rows."""
    counted = open_events.groupBy(group_of(F.col(schema.KEY), key_groups).alias("of")).agg(F.count("*").alias("events"))
    return {row.of: row.events for row in counted.collect()}


def _numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The blobs of a partition, with their places in the logs of their groups."""
    for label, blobs in logs_in(batches):
        for number, blob in enumerate(blobs):
            yield _row(label, number, len(blobs), blob)


def _row(label: int, number: int, of: int, blob: bytes) -> pa.RecordBatch:
    places = [pa.array([each], pa.int32()) for each in (label, number, of)]
    return pa.record_batch([*places, pa.array([blob], pa.binary())], names=["key_group", "number", "of", "blob"])


def _divided(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number, share in shares(batches, _GROUP):
        columns = [pa.array([number], pa.int32()), pa.array([share], pa.binary())]
        yield pa.record_batch(columns, names=[_GROUP, "blob"])


def _packer(key_groups: int) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    def pack_group(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        label = int(group_labels(key_groups)[key[0].as_py()])
        log = packed(rows.column("blob").to_pylist())
        found = pa.Table.from_batches(
            [_row(label, number, len(log.blobs), blob) for number, blob in enumerate(log.blobs)]
        )
        found = found.append_column("events", pa.array(log.events, pa.int64()))
        return found.append_column("whole", pa.repeat(log.whole, len(log.blobs)))

    return pack_group


def _by_group(placed: Iterable[tuple[int, int, str]], key_groups: int) -> dict[int, Blobs]:
    """Of label, place and digest of each blob the digests in order, by the number of the group."""
    numbers = group_numbers(key_groups)
    found: dict[int, list[str]] = {}
    for label, _, digest in sorted(placed):
        found.setdefault(numbers[label], []).append(digest)
    return {group: tuple(digests) for group, digests in found.items()}
