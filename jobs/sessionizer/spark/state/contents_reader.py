"""Reader of the state of a committed batch: figures of all key groups, or one group or key in full.

One key is read from the files, or by Spark: then only the blobs of its group come to Python, and no Python worker is
started for them. Two states are compared here, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.core.definition.rules import SessionRules
from sessionizer.core.key_group.contents import GroupContents, contents_of, sessions_of_key
from sessionizer.core.wire.codec import decode_log
from sessionizer.core.wire.schema import group_labels, group_numbers
from sessionizer.home.roots import uri_of
from sessionizer.inspection.log_of_key import group_of_key, read_log_of_key
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.state.open_events import (
    KeptState,
    describe_state,
    log_blobs,
    map_logs,
    open_payload,
    reading_state,
)
from sessionizer.state.lineages.committed_batch import CommittedBatch
from sessionizer.stream_spec.spec_folder import parse_recorded_spec

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
    """Open events and keys of two states. Events of a ``changed`` key differ. ``keys``: which differ most."""

    events_only_before: int
    events_only_now: int
    events_in_both: int
    keys_only_before: int
    keys_only_now: int
    keys_changed: int
    keys_same: int
    keys: tuple[KeyDifference, ...]


def compare_states(before: DataFrame, now: DataFrame, most: int) -> Comparison:
    """Compare canonical open events of two states. Key, id and clock identify an event. A repeat counts once."""
    sides = [frame.select(*_EVENT, F.lit(side).alias("side")) for frame, side in ((before, 1), (now, 2))]
    events = sides[0].union(sides[1]).groupBy(*_EVENT).agg(F.expr("bit_or(side)").alias("sides"))
    places = [F.count_if(F.col("sides") == bits).alias(name) for bits, name in ((1, _BEFORE), (2, _NOW), (3, _BOTH))]
    by_key = events.groupBy("key").agg(*places).persist()
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


def rules_of_batch(found: CommittedBatch) -> SessionRules:
    """Return the rules of a batch. Raises InvalidSpec if this release refuses the spec that the lineage ran by."""
    return rules_of(parse_recorded_spec(found.spec, Path(uri_of(found.checkpoint))))


def read_sessions_of(spark: SparkSession, found: CommittedBatch, key: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the group of ``key`` and its open sessions after the batch, as ``sessions_of_key`` does."""
    known = read_sessions_in_files(found, key)
    if known is not None:
        return known
    with reading_state(spark):
        state = describe_state(found)
        group = group_of_key(key, state.key_groups)
        label = int(group_labels(state.key_groups)[group])
        rows = log_blobs(spark, state).where(F.col("label") == label).collect()  # oldest first
    return group, _sessions_in([bytes(row.blob) for row in rows], found, key)


def read_sessions_in_files(found: CommittedBatch, key: str) -> tuple[int, list[dict[str, Any]]] | None:
    """Return the same without Spark, in a tenth of the time. None if a file is gone, damaged or of another form.

    Spark may read it, or its error says more. Raises InvalidSpec.
    """
    try:
        group, blobs = read_log_of_key(found.checkpoint, found.batch_id, int(found.spec["key_groups"]), key)
    except (ValueError, KeyError, OSError):
        return None
    return group, _sessions_in(blobs, found, key)


def _sessions_in(blobs: Sequence[bytes], found: CommittedBatch, key: str) -> list[dict[str, Any]]:
    return sessions_of_key(decode_log(blobs), key, rules_of_batch(found), open_payload(found.kept))


def read_contents(
    spark: SparkSession, state: KeptState, rules: SessionRules, heaviest: int, only: int | None = None
) -> Mapping[int, GroupContents]:
    """Describe each key group that holds anything, by its number, or ``only`` one. Call it in ``reading_state``."""
    blobs = log_blobs(spark, state)
    if only is not None:
        blobs = blobs.where(F.col("label") == int(group_labels(state.key_groups)[only]))
    numbers = group_numbers(state.key_groups)

    def describe(label: int, blobs: list[bytes]) -> Iterator[pa.RecordBatch]:
        contents = contents_of(blobs, numbers[label], rules, heaviest)
        yield pa.record_batch([pa.array([json.dumps(asdict(contents))])], names=["contents"])

    found = map_logs(blobs, describe, "contents string").collect()
    contents = [GroupContents.from_json(row.contents) for row in found]
    return {each.key_group: each for each in sorted(contents, key=lambda each: each.key_group)}


def read_timers(spark: SparkSession, state: KeptState) -> Mapping[int, Sequence[int]]:
    """Return the registered timers (epoch ms), by the number of their group."""
    reader = spark.read.format("statestore").option("readRegisteredTimers", "true").option("batchId", state.batch_id)
    rows = reader.load(uri_of(state.checkpoint)).selectExpr("key.key_group label", "expiration_timestamp_ms at")
    numbers = group_numbers(state.key_groups)
    timers: dict[int, list[int]] = {}
    for row in rows.collect():
        timers.setdefault(numbers[row.label], []).append(int(row["at"]))
    return {group: sorted(timers[group]) for group in sorted(timers)}
