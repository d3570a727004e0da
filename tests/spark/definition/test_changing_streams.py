"""Random streams whose spec is changed between any two drivers, in real queries and tables, against the definition.

Rules, payload and measures change while sessions are open: columns come, go, change places and become wider. Streams
share one Spark and run side by side, as much of a small batch is waiting.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

import pytest

from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import Clock
from support.streams.changing_stream import (
    Told,
    conflicts_defined,
    conflicts_in,
    late_defined,
    late_in,
    sessions_defined,
    sessions_in,
    tell,
)
from support.streams.log_feed import batches_that_bring_something
from support.streams.strategies import Log, examples_of, logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

STREAMS = 32
SPREAD = 3
QUICK = 1
"""So many run with all other tests."""
DRIVERS = 4
AT_A_TIME = 2


def is_worth_it(log: Log) -> bool:
    return (
        len(batches_that_bring_something(log)) > DRIVERS and sum(len(batch.events) for batch in log.batches) > DRIVERS
    )


@cache
def drawn_logs() -> list[Log]:
    """Draw the log of each stream, when the first one runs: every worker of a run imports this file."""
    return examples_of(logs([Clock.EVENT_TIME], drained=True).filter(is_worth_it), STREAMS * SPREAD)[::SPREAD]


NUMBERS = [number if number < QUICK else pytest.param(number, marks=pytest.mark.long) for number in range(STREAMS)]


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Told]]:
    """What became of a stream. It runs when first asked for, and the one after it at the same time."""
    running: dict[int, Future[Told]] = {}

    def run(number: int) -> Told:
        last = QUICK if number < QUICK else STREAMS
        for ahead in range(number, min(number + AT_A_TIME, last)):
            if ahead not in running:
                root = tmp_path_factory.mktemp(f"stream-{ahead}-")
                running[ahead] = pool.submit(tell, spark.newSession(), drawn_logs()[ahead], ahead, DRIVERS, root)
        return running[number].result()

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield run


@pytest.mark.parametrize("number", NUMBERS)
def test_a_stream_whose_spec_changes_equals_the_oracle(told: Callable[[int], Told], number: int) -> None:
    stream = told(number)
    outcome = stream.outcome()
    assert not outcome.open_events, "the last batch drains"
    assert sessions_in(stream) == sessions_defined(stream, outcome)
    assert late_in(stream) == late_defined(outcome)
    assert conflicts_in(stream) == conflicts_defined(outcome)


@pytest.mark.long
def test_the_streams_are_worth_it(told: Callable[[int], Told]) -> None:
    """All that can change does, and often enough to be believed."""
    seen = sum((happenings(told(number)) for number in range(STREAMS)), Counter[str]())
    assert len(seen) == 9, str(seen)
    assert all(count >= 5 for count in seen.values()), str(seen)


def happenings(stream: Told) -> Counter[str]:
    seen = Counter(late=len(stream.outcome().late), conflicting=len(stream.outcome().conflicting))
    for before, after in zip(stream.editions, stream.editions[1:], strict=False):
        was, now = ({field.name: field.type for field in one.payload} for one in (before, after))
        begun = stream.edition_of.index(after) if after in stream.edition_of else 0
        seen["rules"] += before.rules != after.rules
        seen["column added"] += bool(now.keys() - was.keys())
        seen["column removed"] += bool(was.keys() - now.keys())
        seen["column widened"] += any(was[name] != now[name] for name in was.keys() & now.keys())
        seen["measure added"] += bool(set(after.measured) - set(before.measured))
        seen["measure removed"] += bool(set(before.measured) - set(after.measured))
        open_then = sessionize(stream.batches[:begun], stream.editions[0].rules).open_events
        seen["open across a change"] += bool(open_then) and before != after
    return seen
