"""What docs/sessions.md says a session is, by its own examples: a real streaming query does the same.

All examples of the same rules go through one query, one after the other: each has keys of its own and begins far above
the watermark at which the one before it ended. Left out are those that set the wall clock, which is Spark's own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.core.definition.event import Batch, Event, drain_at
from sessionizer.core.definition.rules import NEVER_MS, Clock
from sessionizer.home import names
from support.expected.worked_examples import FAR_FROM_NOW_MS, Example, Told, read_examples
from support.places import REPOSITORY
from support.streams.log_feed import batches_that_bring_something
from support.streams.plain_rows import conflict_of_row, event_of_oracle, late_event_of_oracle, late_event_of_row
from support.streams.strategies import Log
from support.streams.streamed_log import Pace, Setting, Streamed, stream

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

PAGE = REPOSITORY / "docs" / "sessions.md"
APART_MS = 100_000
END_MS = 50_000
"""From the start of an example: later than all of it."""


def examples_by_rules() -> list[list[Example]]:
    found: dict[str, list[Example]] = {}
    for number, example in enumerate(read_examples(PAGE), start=1):
        if all(batch.arrived_at_ms >= FAR_FROM_NOW_MS for batch in example.batches):
            found.setdefault(repr(example.rules), []).append(moved(example, number))
    return list(found.values())


def moved(example: Example, number: int) -> Example:
    """The example with its own keys and, in event time, at its own time; its drain is a floor that ends no other."""
    by_ms = number * APART_MS if example.rules.clock is Clock.EVENT_TIME else 0

    def events(given: Iterable[Event]) -> list[Event]:
        times = ((event, event.event_time_ms and event.event_time_ms + by_ms) for event in given)
        return [replace(event, key=f"{event.key}{number}", event_time_ms=time_ms) for event, time_ms in times]

    def batch(given: Batch) -> Batch:
        floor_ms = given.floor_ms
        if by_ms:
            floor_ms = by_ms + (END_MS if floor_ms == NEVER_MS else floor_ms or 0)
        return replace(given, events=tuple(events(given.events)), floor_ms=floor_ms)

    def told(given: Told) -> Told:
        sessions = [replace(session, events=tuple(events(session.events))) for session in given.sessions]
        return replace(given, sessions=sessions, late=events(given.late), conflicting=events(given.conflicting))

    return replace(
        example,
        batches=list(map(batch, example.batches)),
        told=list(map(told, example.told)),
        open_events=events(example.open_events),
    )


RULE_SETS = examples_by_rules()


@pytest.mark.parametrize("examples", RULE_SETS, ids=lambda examples: f"from line {examples[0].line}")
def test_a_real_stream_does_as_the_page_says(spark: SparkSession, tmp_path: Path, examples: list[Example]) -> None:
    streamed = run(spark, tmp_path, examples)
    told = [told for example in examples for told in example.told]
    sessions = Counter(map(session_of_row, streamed.rows(names.SESSIONS)))
    expected = Counter(
        (session.events[0].key, tuple(event.event_id for event in session.events), session.reason)
        for each in told
        for session in each.sessions
    )
    assert not expected - sessions
    ended_later = [(key, event_id) for key, ids, _ in (sessions - expected).elements() for event_id in ids]
    assert Counter(ended_later) == Counter(
        (event.key, event.event_id) for example in examples for event in example.open_events
    )
    late = Counter(map(late_event_of_row, streamed.rows(names.LATE_EVENTS)))
    assert late == Counter(late_event_of_oracle(event) for each in told for event in each.late)
    conflicting = Counter(map(conflict_of_row, streamed.rows(names.QUARANTINE)))
    assert conflicting == Counter(event_of_oracle(event) for each in told for event in each.conflicting)
    assert streamed.repeated == sum(len(each.repeated) for each in told)


def run(spark: SparkSession, home: Path, examples: list[Example]) -> Streamed:
    """The examples' batches, each as one micro-batch, and a drain after them."""
    batches = [*(batch for example in examples for batch in example.batches), drain_at(0)]
    log = Log(examples[0].rules, tuple(batches))
    assert batches_that_bring_something(log) == batches
    paces = (*[Pace.AT_ONCE] * (len(batches) - 1), Pace.IN_QUIET)
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", 1)
    streamed = stream(session, log, Setting(key_groups=2, emit_every_ms=1, paces=paces), home)
    brought = [batch.events for batch in batches_that_bring_something(Log(log.rules, tuple(streamed.batches)))]
    assert brought == [batch.events for batch in batches], "Spark made other micro-batches of them"
    return streamed


def session_of_row(row: Any) -> tuple[Any, ...]:
    return (row["key"], tuple(event["event_id"] for event in row["events"]), row["close_reason"])
