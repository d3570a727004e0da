"""A query with Spark's own sessions: ``session_window`` with a dynamic gap, the events collected.

It does less than our query: it has no closing events, duplicates, caps, order of events or quarantine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sessionizer_bench.contestants.race import Race, events, start_into_delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def start(spark: SparkSession, race: Race) -> StreamingQuery:
    """Start the query."""
    gap = F.expr("make_interval(0, 0, 0, 0, 0, 0, timeout_s)")
    event = F.struct("event_time", "event_id", "data", "is_last")
    watermarked = events(spark, race).withWatermark("event_time", f"{race.watermark_delay_s} seconds")
    sessions = watermarked.groupBy("user_id", F.session_window("event_time", gap)).agg(
        F.min("event_time").alias("started_at"),
        F.max("event_time").alias("ended_at"),
        F.count(F.lit(1)).cast("int").alias("event_count"),
        F.collect_list(event).alias("events"),
    )
    columns = ("user_id", "started_at", "ended_at", "event_count", "events")
    return start_into_delta(sessions.select(*columns), race)
