"""Open events that are in one state and not in the other, counted and by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EVENT: Final = ("key", "event_id", "clock_ms")
_BEFORE, _NOW = "before", "now"
_BOTH: Final = "both"


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """Number of open events of a key that are only in one state, only in the other, and in both."""

    key: str
    only_before: int
    only_now: int
    both: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Open events and keys of two states, shared or not. A key of both is ``changed`` if its events differ.

    ``keys``: those that differ most.
    """

    events_only_before: int
    events_only_now: int
    events_in_both: int
    keys_only_before: int
    keys_only_now: int
    keys_changed: int
    keys_same: int
    keys: tuple[KeyDifference, ...]


def compare_states(before: DataFrame, now: DataFrame, most: int) -> Comparison:
    """Compare canonical open events of two states. An event is identified by key, id and clock.

    A repeat counts once.
    """
    by_key = _compare_keys(before, now).persist()
    try:
        totals = by_key.agg(
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in (_BEFORE, _NOW, _BOTH)),
            F.count_if(F.expr("now = 0 and both = 0")).alias("keys_only_before"),
            F.count_if(F.expr("before = 0 and both = 0")).alias("keys_only_now"),
            F.count_if(F.expr("before = 0 and now = 0")).alias("keys_same"),
            F.count("*").alias("keys"),
        ).first()
        assert totals is not None  # noqa: S101  an aggregate of all has one row
        differing = by_key.where("before + now > 0").orderBy(F.expr("before + now").desc(), "key").limit(most).collect()
    finally:
        by_key.unpersist()
    apart = totals.keys_only_before + totals.keys_only_now + totals.keys_same
    return Comparison(
        events_only_before=totals[_BEFORE],
        events_only_now=totals[_NOW],
        events_in_both=totals[_BOTH],
        keys_only_before=totals.keys_only_before,
        keys_only_now=totals.keys_only_now,
        keys_changed=totals["keys"] - apart,
        keys_same=totals.keys_same,
        keys=tuple(KeyDifference(row.key, row[_BEFORE], row[_NOW], row[_BOTH]) for row in differing),
    )


def _compare_keys(before: DataFrame, now: DataFrame) -> DataFrame:
    """Count by key the events that are only in one state, only in the other, and in both."""
    sides = [frame.select(*_EVENT, F.lit(side).alias("side")) for frame, side in ((before, 1), (now, 2))]
    events = sides[0].union(sides[1]).groupBy(*_EVENT).agg(F.expr("bit_or(side)").alias("sides"))
    return events.groupBy("key").agg(
        F.count_if(F.col("sides") == 1).alias(_BEFORE),
        F.count_if(F.col("sides") == 2).alias(_NOW),  # noqa: PLR2004  the bit above
        F.count_if(F.col("sides") == 3).alias(_BOTH),  # noqa: PLR2004  both bits
    )
