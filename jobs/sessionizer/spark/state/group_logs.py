"""The logs of all key groups as rows, a row for each blob: read from a state, kept in a savepoint, begun with.

A lineage with as many key groups takes them over as they are. For another number the events in them are packed anew
(``lineages.initial_log``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from sessionizer.core.wire.rows import INITIAL
from sessionizer.core.wire.schema import group_labels, group_numbers
from sessionizer.spark.state.open_events import iterate_logs, log_blobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.spark.state.open_events import KeptState
    from sessionizer.state.lineages.state_transfer import Blobs


@dataclass(frozen=True, slots=True)
class FirstLog:
    """The first logs of key groups: ``rows`` of ``rows.INITIAL``, and the expected ``blobs`` of each group."""

    rows: DataFrame
    blobs: Mapping[int, Blobs]


def keep_logs(spark: SparkSession, state: KeptState) -> FirstLog:
    """Return the blobs of ``state`` as they are. Evaluate it in ``reading_state``."""
    return FirstLog(log_rows(spark, state), digest_blobs(spark, state))


def log_rows(spark: SparkSession, state: KeptState) -> DataFrame:
    """Return the logs of a state by ``rows.INITIAL``. Evaluate it in ``reading_state``."""
    return log_blobs(spark, state).mapInArrow(_number_blobs, INITIAL)


def digest_blobs(spark: SparkSession, state: KeptState) -> Mapping[int, Blobs]:
    """Return the SHA-256 of each blob, in order, by the number of each key group that has any.

    Call it in ``reading_state``.
    """
    placed = log_blobs(spark, state).select(
        "label", F.monotonically_increasing_id().alias("place"), F.sha2("blob", 256).alias("digest")
    )
    return group_blobs(((row.label, row.place, row.digest) for row in placed.collect()), state.key_groups)


def number_groups(rows: DataFrame, key_groups: int) -> DataFrame:
    """Return rows by ``rows.INITIAL`` with the numbers of their groups in place of the labels.

    The labels follow from the numbers.
    """
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


def log_row(label: int, number: int, of: int, blob: bytes) -> pa.RecordBatch:
    """Return a blob by ``rows.INITIAL``: the ``number``-th of the ``of`` blobs in the log of a group."""
    places = [pa.array([each], pa.int32()) for each in (label, number, of)]
    return pa.record_batch([*places, pa.array([blob], pa.binary())], names=["key_group", "number", "of", "blob"])


def group_blobs(placed: Iterable[tuple[int, int, str]], key_groups: int) -> dict[int, Blobs]:
    """Group the digests of blobs, in the order of their places, by the number of the group."""
    numbers = group_numbers(key_groups)
    found: dict[int, list[str]] = {}
    for label, _, digest in sorted(placed):
        found.setdefault(numbers[label], []).append(digest)
    return {group: tuple(digests) for group, digests in found.items()}


def _number_blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the blobs of a partition, with their places in the logs of their groups."""
    for label, blobs in iterate_logs(batches):
        for number, blob in enumerate(blobs):
            yield log_row(label, number, len(blobs), blob)
