"""Open events packed into the logs that the key groups of a new lineage begin with (``core.wire.packing``).

Rows are divided into blobs where they are read, so that Spark shuffles blobs and not events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import pack_shares, shares
from sessionizer.core.wire.rows import INITIAL
from sessionizer.core.wire.schema import group_labels, group_numbers
from sessionizer.errors import UnfaithfulState
from sessionizer.home.roots import uri_of
from sessionizer.spark.query.assembly import group_of
from sessionizer.spark.state.group_logs import FirstLog, group_blobs, log_row
from sessionizer.state.lineages.state_transfer import PackedGroup, check_packing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.home.roots import DataPath

_GROUP: Final = "new_key_group"
_SHARES: Final = f"{_GROUP} int, blob binary, events bigint, without_key bigint, without_timeout bigint"
_SHARE_COLUMNS: Final = [_GROUP, "blob", "events", "without_key", "without_timeout"]
_PACKED: Final = f"{INITIAL}, events bigint, whole boolean"


@dataclass(frozen=True, slots=True)
class DividedEvents:
    """Open events divided among key groups by their keys: ``shares`` in a folder, a blob of one group in each row.

    ``by_group``: the number of events that each group must hold.
    """

    shares: DataFrame
    key_groups: int
    by_group: Mapping[int, int]


def divide(
    open_events: DataFrame, key_groups: int, folder: DataPath, admissions: Sequence[str] | None = None
) -> DataFrame:
    """Divide canonical ``open_events`` among ``key_groups``, into ``folder``, and return the shares.

    The events are evaluated once. ``admissions``: as JSON, if the events have their numbers.
    """
    grouped = open_events.withColumn(_GROUP, group_of(F.col(schema.KEY), key_groups))
    grouped.mapInArrow(_divider(admissions), _SHARES).write.option("compression", "none").parquet(uri_of(folder))
    return open_events.sparkSession.read.schema(_SHARES).parquet(uri_of(folder))


def count_by_key(open_events: DataFrame, key_groups: int) -> dict[int, int]:
    """Count the open events that each of ``key_groups`` must hold, by the keys of canonical rows."""
    counted = open_events.groupBy(group_of(F.col(schema.KEY), key_groups).alias("of")).agg(F.count("*").alias("events"))
    return {row.of: row.events for row in counted.collect()}


def count_shares(shares: DataFrame) -> tuple[dict[int, int], dict[str, int]]:
    """Count the open events in shares: by key group, and those without a key or a timeout. No blob is read."""
    sums = (F.sum(name).alias(name) for name in ("events", "without_key", "without_timeout"))
    found = shares.groupBy(_GROUP).agg(*sums).collect()
    without = {schema.KEY: "without_key", schema.TIMEOUT: "without_timeout"}
    unfit = {name: sum(row[column] for row in found) for name, column in without.items()}
    return {row[_GROUP]: row.events for row in found}, unfit


def pack_events(spark: SparkSession, stream: str, divided: DividedEvents, folder: DataPath) -> FirstLog:
    """Pack the ``divided`` open events into ``folder``.

    A group is opened whole in one Python worker, as in a merge. Raises UnfaithfulState if an event got lost.
    """
    pack(divided, folder)
    found = _packed_groups(spark, folder, divided.key_groups)
    lost = check_packing(divided.by_group, found)
    if lost is not None:
        raise UnfaithfulState(stream, lost)
    rows = spark.read.schema(INITIAL).parquet(uri_of(folder))
    return FirstLog(rows, {group: of.blobs for group, of in found.items()})


def pack(divided: DividedEvents, folder: DataPath) -> None:
    """Write the packed groups into ``folder``."""
    groups = divided.shares.select(_GROUP, "blob").groupBy(_GROUP)
    packed_groups = groups.applyInArrow(_packer(divided.key_groups), _PACKED)
    packed_groups.write.option("compression", "none").parquet(uri_of(folder))


def _packed_groups(spark: SparkSession, folder: DataPath, key_groups: int) -> Mapping[int, PackedGroup]:
    """Read the packed logs, by the number of each key group that has any."""
    rows = spark.read.schema(_PACKED).parquet(uri_of(folder))
    found = rows.select("key_group", "number", "events", "whole", F.sha2("blob", 256).alias("digest")).collect()
    blobs = group_blobs(((row.key_group, row.number, row.digest) for row in found), key_groups)
    numbers = group_numbers(key_groups)
    events, whole = dict.fromkeys(blobs, 0), dict.fromkeys(blobs, True)
    for row in found:
        events[numbers[row.key_group]] += row.events
        whole[numbers[row.key_group]] &= row.whole
    return {group: PackedGroup(events[group], whole[group], blobs[group]) for group in blobs}


def _divider(admissions: Sequence[str] | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def divided(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for share in shares(batches, _GROUP, admissions):
            columns = [pa.array([share.group], pa.int32()), pa.array([share.blob], pa.binary())]
            counts = [pa.array([each], pa.int64()) for each in (share.events, share.without_key, share.without_timeout)]
            yield pa.record_batch([*columns, *counts], names=_SHARE_COLUMNS)

    return divided


def _packer(key_groups: int) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    def pack_group(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        label = int(group_labels(key_groups)[key[0].as_py()])
        log = pack_shares(rows.column("blob").to_pylist())
        found = pa.Table.from_batches(
            [log_row(label, number, len(log.blobs), blob) for number, blob in enumerate(log.blobs)]
        )
        found = found.append_column("events", pa.array(log.events, pa.int64()))
        return found.append_column("whole", pa.repeat(log.whole, len(log.blobs)))

    return pack_group
