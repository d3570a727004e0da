"""The change feed of Spark's reader of states is exact on ours: what docs/tuning.md weighs it by.

A state, and the changes of the batches after it, are the later state, to the byte: batches that append to a group's
log, that write it anew, and that clear it.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.core.definition.rules import Clock
from support.streams.log_feed import batches_that_bring_something
from support.streams.strategies import examples_of, logs
from support.streams.streamed_log import Pace, Setting, as_specified, stream

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

    from support.streams.strategies import Log

pytestmark = pytest.mark.long

LOGS, SPREAD = 4, 11
VALUES = ("plan", "timeouts", "timeouts_fingerprint")
Kept = dict[int, list[Any]]
"""Of each key group what a variable holds: the elements of a list, or one value."""


def some_logs() -> list[Log]:
    wanted = logs([Clock.EVENT_TIME], drained=False).filter(lambda log: len(batches_that_bring_something(log)) > 3)
    return [as_specified(log) for log in examples_of(wanted, LOGS * SPREAD)[::SPREAD]]


@pytest.fixture(scope="module")
def checkpoints(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, int]]:
    """Each with its newest batch."""
    chance, done = random.Random(0), []
    for log in some_logs():
        home = tmp_path_factory.mktemp("fed-")
        paces = tuple(chance.choice((Pace.AT_ONCE, Pace.IN_QUIET)) for _ in batches_that_bring_something(log))
        # a step of one merges in most batches, a long one appends
        streamed = stream(spark, log, Setting(2, chance.choice((1, 60_000)), paces), home)
        done.append((home / "checkpoint", len(streamed.batches) - 1))
    return done


def reader(spark: SparkSession, checkpoint: Path, variable: str, **options: str | int) -> DataFrame:
    asked = spark.read.format("statestore").option("stateVarName", variable).options(**options)
    return asked.load(str(checkpoint))


def state(spark: SparkSession, checkpoint: Path, variable: str, batch_id: int) -> Kept:
    kept: Kept = {}
    for row in reader(spark, checkpoint, variable, batchId=batch_id).collect():
        kept.setdefault(row.key.key_group, []).append(row[held_in(variable)])
    return kept


def changes(spark: SparkSession, checkpoint: Path, variable: str, first: int, last: int) -> list[Row]:
    fed = reader(spark, checkpoint, variable, readChangeFeed="true", changeStartBatchId=first, changeEndBatchId=last)
    return fed.collect()


def held_in(variable: str) -> str:
    """The column of what a variable holds."""
    return "list_element" if variable == "log" else "value"


def followed(before: Kept, fed: Iterable[Row], column: str) -> Kept:
    kept = {group: [*values] for group, values in before.items()}
    for row in fed:
        if row.change_type == "append":
            kept.setdefault(row.key.key_group, []).append(row[column])
        elif row.change_type == "update":
            kept[row.key.key_group] = [row[column]]
        else:
            assert row.change_type == "delete"
            kept.pop(row.key.key_group, None)
    return kept


def test_a_state_and_the_changes_after_it_are_the_later_state(
    spark: SparkSession, checkpoints: list[tuple[Path, int]]
) -> None:
    kinds: Counter[str] = Counter()
    for checkpoint, last in checkpoints:
        for variable in ("log", *VALUES):
            later = state(spark, checkpoint, variable, last)
            for since in {0, last // 2}:
                fed = changes(spark, checkpoint, variable, since + 1, last)
                before = state(spark, checkpoint, variable, since)
                assert followed(before, fed, held_in(variable)) == later, (checkpoint, variable, since)
                kinds.update(f"{variable} {row.change_type}" for row in fed)
    assert {"log append", "log update", "log delete", "plan update"} <= kinds.keys()
