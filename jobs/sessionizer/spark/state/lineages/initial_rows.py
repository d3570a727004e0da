"""Canonical open events as what the key groups of a new lineage begin with, and digests to compare the two by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import ADMISSION, KEY_GROUP, log_of
from sessionizer.core.wire.codec import encode
from sessionizer.core.wire.group_labels import group_labels
from sessionizer.core.wire.rows import INITIAL
from sessionizer.spark.query.assembly import group_of
from sessionizer.state.lineages.handover import GroupDigest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

_NEW_GROUP: Final = "new_key_group"
_TO_THE_MICROSECOND: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def initial_rows(open_events: DataFrame, key_groups: int) -> DataFrame:
    """Rows of ``rows.INITIAL``: the canonical ``open_events`` of all groups, divided into so many ``key_groups``.

    A new group is opened whole in one Python worker, as in a merge.
    """
    numbered = open_events.withColumn(_NEW_GROUP, group_of(F.col(schema.KEY), key_groups))
    return numbered.groupBy(_NEW_GROUP).applyInArrow(_packer(key_groups), INITIAL)


def _packer(key_groups: int) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    def pack(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        label = int(group_labels(key_groups)[key[0].as_py()])
        blobs = [encode(table.combine_chunks()) for table in log_of(rows.drop_columns([_NEW_GROUP]))]
        numbers = (pa.repeat(pa.scalar(of, pa.int32()), len(blobs)) for of in (label, len(blobs)))
        labels, of = numbers
        places = pa.array(range(len(blobs)), pa.int32())
        return pa.table([labels, places, of, pa.array(blobs, pa.binary())], names=["key_group", "number", "of", "blob"])

    return pack


def digests_by_key(open_events: DataFrame, key_groups: int) -> dict[int, GroupDigest]:
    """What each of so many ``key_groups`` must hold, by the keys of canonical rows."""
    return _digests(open_events, group_of(F.col(schema.KEY), key_groups))


def digests_by_place(open_events: DataFrame) -> dict[int, GroupDigest]:
    """What each key group does hold, by where canonical rows were read from."""
    return _digests(open_events, F.col(KEY_GROUP))


def _digests(open_events: DataFrame, group: Column) -> dict[int, GroupDigest]:
    own = [F.col(name) for name in open_events.columns if name not in (KEY_GROUP, ADMISSION)]
    admitted = [F.col(f"{ADMISSION}.{name}") for name in ("late_before_ms", "caps", "columns")]
    row = F.xxhash64(F.to_json(F.struct(*own, *admitted), _TO_THE_MICROSECOND)).cast("decimal(38,0)")
    found = open_events.groupBy(group.alias("group")).agg(F.count("*").alias("events"), F.sum(row).alias("checksum"))
    return {of.group: GroupDigest(of.events, int(of.checksum)) for of in found.collect()}
