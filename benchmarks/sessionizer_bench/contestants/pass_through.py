"""The same source, a shuffle by user and the same sink, without sessions: the cost of any keyed stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer_bench.contestants.race import Race, events, start_into_delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def start(spark: SparkSession, race: Race) -> StreamingQuery:
    """Start the query."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
    return start_into_delta(events(spark, race).repartition(partitions, "user_id"), race)
