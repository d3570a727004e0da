"""The logs of all key groups as rows, a row for each blob: read from a state, kept in a savepoint, begun with.

A lineage with as many key groups takes them over as they are; for any other the events in them are packed anew
(``lineages.initial_log``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from sessionizer.core.wire.group_labels import group_labels, group_numbers
from sessionizer.core.wire.rows import INITIAL
from sessionizer.spark.state.open_events import log_blobs, logs_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.spark.state.open_events import KeptState
    from sessionizer.state.lineages.handover import Blobs


@dataclass(frozen=True, slots=True)
class FirstLog:
    """What key groups begin with: ``rows`` of ``rows.INITIAL``, and the ``blobs`` of each that these must make."""

    rows: DataFrame
    blobs: Mapping[int, Blobs]


def carried(spark: SparkSession, state: KeptState) -> FirstLog:
    """The blobs of ``state`` as they are; evaluate it in ``reading_state``."""
    return FirstLog(log_rows(spark, state), blobs_in(spark, state))


def log_rows(spark: SparkSession, state: KeptState) -> DataFrame:
    """The logs of a state by ``rows.INITIAL``; evaluate it in ``reading_state``."""
    return log_blobs(spark, state).mapInArrow(_numbered, INITIAL)


def blobs_in(spark: SparkSession, state: KeptState) -> Mapping[int, Blobs]:
    """The SHA-256 of each blob, in order, of each key group that has any, by its number; in ``reading_state``."""
    placed = log_blobs(spark, state).select(
        "label", F.monotonically_increasing_id().alias("place"), F.sha2("blob", 256).alias("digest")
    )
    return by_group(((row.label, row.place, row.digest) for row in placed.collect()), state.key_groups)


def numbered_by_group(rows: DataFrame, key_groups: int) -> DataFrame:
    """Rows by ``rows.INITIAL`` with the numbers of their groups in place of the labels, which follow from these."""
    numbers = F.create_map(*(F.lit(each) for pair in group_numbers(key_groups).items() for each in pair))
    return rows.withColumn("key_group", numbers[F.col("key_group")])


def labelled(rows: DataFrame, key_groups: int) -> DataFrame:
    """What ``numbered_by_group`` was given."""
    labels = F.array(*(F.lit(int(label)) for label in group_labels(key_groups)))
    return rows.withColumn("key_group", F.get(labels, F.col("key_group")))


def whole_logs(rows: DataFrame, partitions: int) -> DataFrame:
    """Rows by ``rows.INITIAL`` as ``log_blobs`` has them: those of a group together and in order."""
    spread = rows.repartition(partitions, "key_group").sortWithinPartitions("key_group", "number")
    return spread.select(F.col("key_group").alias("label"), "blob")


def begun_with(rows: DataFrame, key_groups: int) -> FirstLog:
    """What groups begin with whose logs are ``rows`` of ``rows.INITIAL``."""
    placed = rows.select("key_group", "number", F.sha2("blob", 256).alias("digest")).collect()
    return FirstLog(rows, by_group(((row.key_group, row.number, row.digest) for row in placed), key_groups))


def log_row(label: int, number: int, of: int, blob: bytes) -> pa.RecordBatch:
    """One blob by ``rows.INITIAL``: the ``number``-th of the log of a group, which has ``of`` of them."""
    places = [pa.array([each], pa.int32()) for each in (label, number, of)]
    return pa.record_batch([*places, pa.array([blob], pa.binary())], names=["key_group", "number", "of", "blob"])


def by_group(placed: Iterable[tuple[int, int, str]], key_groups: int) -> dict[int, Blobs]:
    """Of label, place and digest of each blob the digests in order, by the number of the group."""
    numbers = group_numbers(key_groups)
    found: dict[int, list[str]] = {}
    for label, _, digest in sorted(placed):
        found.setdefault(numbers[label], []).append(digest)
    return {group: tuple(digests) for group, digests in found.items()}


def _numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The blobs of a partition, with their places in the logs of their groups."""
    for label, blobs in logs_in(batches):
        for number, blob in enumerate(blobs):
            yield log_row(label, number, len(blobs), blob)
