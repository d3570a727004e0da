"""A stream that goes on in a new lineage with its state: the tables are those of the definition, as if it never ended.

Random logs, cut anywhere, with late events, duplicates and conflicts across the cuts, in other key groups and other
partitions each time, and by another spec: other rules, other payload columns of every type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.core.definition.rules import Clock
from support.streams.changing_stream import (
    conflicts_defined,
    conflicts_in,
    late_defined,
    late_in,
    sessions_defined,
    sessions_in,
)
from support.streams.strategies import ALL_MODES, examples_of, logs
from support.verbs.reseeded_stream import tell_reseeded

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.streams.strategies import Log

OF_EACH_MODE = 2


def rich_logs(mode: Clock, count: int) -> list[Log]:
    """Logs of many events in several batches, among which ids repeat."""
    found = [log for log in examples_of(logs([mode], drained=True), 300) if is_rich(log)]
    assert len(found) >= count
    return found[:count]


def is_rich(log: Log) -> bool:
    events = [event for batch in log.batches for event in batch.events]
    ids = {(event.key, event.event_id) for event in events}
    return len(events) >= 20 and len(events) - len(ids) >= 5 and len(log.batches) >= 7


NUMBERS = [(0, 2), *((number, 4) for number in range(OF_EACH_MODE))]
"""Which log, and how many drivers go through it, each but the first in a lineage that was seeded."""
QUICK = (Clock.EVENT_TIME, 0, 2)
"""What runs in `make test`."""
CASES = [
    pytest.param(mode, *number, marks=() if (mode, *number) == QUICK else pytest.mark.long)
    for mode in ALL_MODES
    for number in NUMBERS
]


@pytest.mark.parametrize(("mode", "number", "drivers"), CASES)
def test_a_stream_that_was_reseeded_equals_the_definition(
    spark: SparkSession, tmp_path: Path, mode: Clock, number: int, drivers: int
) -> None:
    log = rich_logs(mode, OF_EACH_MODE)[number]
    told = tell_reseeded(spark, log, seed=number, drivers=drivers, root=tmp_path)
    outcome = told.outcome()
    assert len(told.editions) == drivers
    assert not outcome.open_events, "the last batch drains"
    assert sessions_in(told) == sessions_defined(told, outcome)
    assert late_in(told) == late_defined(outcome)
    assert conflicts_in(told) == conflicts_defined(outcome)
