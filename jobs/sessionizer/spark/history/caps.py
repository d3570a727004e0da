"""Cuts of a history's segments by the caps on events, bytes and duration.

A segment lies between two closing events or gaps. Caps never join segments, they only cut them further. Up to the caps
on duration and bytes that is arithmetic. Beyond them each cut depends on the one before, so only those segments are
folded in order. Of a folded segment only times and sizes are held together, never its events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

    from sessionizer.core.definition.rules import SessionRules

_SEGMENT = ("key", "segment")


def event_order(*within: str) -> WindowSpec:
    """Return a window over one key, segment or session, in the order of events that makes sessions."""
    return Window.partitionBy(*within).orderBy("clock_ms", "closes", "event_id")


def cap_segments(segmented: DataFrame, rules: SessionRules) -> DataFrame:
    """Add ``position`` (of the event in its segment, from 0) and ``begins_after_cap``."""
    placed = segmented.withColumn("position", F.row_number().over(event_order(*_SEGMENT)) - 1)
    if rules.max_duration_ms is None and rules.max_bytes is None:
        return placed.withColumn("begins_after_cap", _every(rules.max_events))
    return _folded_where_needed(placed, rules)


def _every(max_events: int | None) -> Column:
    """Return the condition for the first event after ``max_events``, in a segment that only this cap cuts."""
    if max_events is None:
        return F.lit(False)  # noqa: FBT003 - lit has no keyword
    return (F.col("position") > 0) & (F.col("position") % max_events == 0)


def _folded_where_needed(placed: DataFrame, rules: SessionRules) -> DataFrame:
    segment = Window.partitionBy(*_SEGMENT)
    beyond = F.lit(False)  # noqa: FBT003 - lit has no keyword
    if rules.max_duration_ms is not None:
        beyond |= F.max("clock_ms").over(segment) - F.min("clock_ms").over(segment) > rules.max_duration_ms
    if rules.max_bytes is not None:
        beyond |= F.sum("bytes").over(segment) >= rules.max_bytes
    measured = placed.withColumn("beyond", beyond)
    moments = F.array_sort(F.collect_list(F.struct("position", "clock_ms", "bytes"))).alias("moments")
    cuts = (
        measured.where("beyond")
        .groupBy(*_SEGMENT)
        .agg(moments)
        .select(*_SEGMENT, F.explode(_cut_positions(rules)).alias("position"))
        .withColumn("folded", F.lit(True))  # noqa: FBT003 - lit has no keyword
    )
    begins = F.col("folded").isNotNull() | (~F.col("beyond") & _every(rules.max_events))
    joined = measured.join(cuts, [*_SEGMENT, "position"], "left")
    return joined.withColumn("begins_after_cap", begins).drop("folded", "beyond")


def _cut_positions(rules: SessionRules) -> Column:
    """Return the positions in ``moments`` at which a cap begins another session."""
    beginning = F.struct(
        F.element_at("moments", 1)["clock_ms"].alias("started_ms"),
        F.lit(0).alias("event_count"),
        F.lit(0).cast("bigint").alias("bytes"),
        F.array().cast("array<int>").alias("positions"),
    )

    def take(session: Column, moment: Column) -> Column:
        begins = F.lit(False)  # noqa: FBT003 - lit has no keyword
        if rules.max_duration_ms is not None:
            begins |= moment["clock_ms"] - session["started_ms"] > rules.max_duration_ms
        if rules.max_events is not None:
            begins |= session["event_count"] >= rules.max_events
        if rules.max_bytes is not None:
            begins |= session["bytes"] >= rules.max_bytes
        another = F.struct(
            moment["clock_ms"].alias("started_ms"),
            F.lit(1).alias("event_count"),
            moment["bytes"].alias("bytes"),
            F.concat(session["positions"], F.array(moment["position"])).alias("positions"),
        )
        longer = F.struct(
            session["started_ms"].alias("started_ms"),
            (session["event_count"] + 1).alias("event_count"),
            (session["bytes"] + moment["bytes"]).alias("bytes"),
            session["positions"].alias("positions"),
        )
        return F.when(begins, another).otherwise(longer)

    return F.aggregate("moments", beginning, take, lambda session: session["positions"])
