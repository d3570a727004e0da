"""The batch path in SQL against the definition: many histories in one DataFrame, each under keys of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import NEVER_MS, Clock, SessionRules
from sessionizer.errors import InvalidSpec
from sessionizer.spark.history.sessionize import open_events, sessionize_history
from support.streams.strategies import ORIGIN_MS, PAYLOAD_COLUMNS, examples_of, histories

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.core.definition.event import AdmittedEvent
    from sessionizer.core.definition.outcome import Outcome, Session

HISTORIES = 150
IN_THE_MIDDLE_MS = ORIGIN_MS + 120
PAYLOAD = f"struct<{', '.join(f'{name}: {kind}' for name, kind in PAYLOAD_COLUMNS.items())}>"
COLUMNS = (
    f"key string, client string, at_ms bigint, event_id string, closes boolean, timeout_ms bigint, payload {PAYLOAD}"
)
AS_GUARDED = ("key", "client", "timestamp_millis(at_ms) as event_time", "event_id", "closes", "timeout_ms", "payload")


def rules(clock: Clock = Clock.EVENT_TIME, **others: Any) -> SessionRules:
    plain = {
        "watermark_delay_ms": 0,
        "gap_timeout_ms": 20,
        "client_timeouts_ms": {},
        "max_events": None,
        "max_duration_ms": None,
    }
    return SessionRules(clock=clock, **{**plain, **others})


RULES = {
    "client timeouts": rules(client_timeouts_ms={"app": 10, "tv": 50}),
    "max events": rules(max_events=2),
    "max duration": rules(max_duration_ms=20),
    "max bytes": rules(max_bytes=100, gap_timeout_ms=50),
    "all caps": rules(max_bytes=90, max_events=3, max_duration_ms=30, gap_timeout_ms=50),
    "both caps": rules(max_events=3, max_duration_ms=30, gap_timeout_ms=50),
    "no time": rules(Clock.NONE, max_events=5, max_duration_ms=60),
}
QUICK = {"client timeouts", "all caps", "no time"}
"""They have each cap between them: what runs in `make test`."""


@pytest.fixture(scope="module")
def past() -> tuple[Event, ...]:
    found = enumerate(examples_of(histories(), HISTORIES))
    return tuple(replace(event, key=f"{number}/{event.key}") for number, history in found for event in history)


@pytest.fixture(scope="module")
def history(spark: SparkSession, past: tuple[Event, ...]) -> DataFrame:
    return guarded(spark, past).persist()


def guarded(spark: SparkSession, events: tuple[Event, ...]) -> DataFrame:
    rows = [
        (event.key, event.client, event.event_time_ms, event.event_id, event.closes, event.timeout_ms, event.payload)
        for event in events
    ]
    return spark.createDataFrame(rows, COLUMNS).selectExpr(*AS_GUARDED)


def by_definition(events: tuple[Event, ...], given: SessionRules, until_ms: int | None) -> Outcome:
    """The one batch, and then the watermark alone: with this delay no event of the batch can move it."""
    if given.clock is Clock.NONE:
        events = tuple(replace(event, timeout_ms=None) for event in events)
        given = replace(given, clock=Clock.EVENT_TIME, gap_timeout_ms=NEVER_MS, client_timeouts_ms={})
    end = Batch((), arrived_at_ms=2, floor_ms=NEVER_MS if until_ms is None else until_ms)
    return sessionize([Batch(events, arrived_at_ms=1), end], replace(given, watermark_delay_ms=NEVER_MS))


def session_row(session: Session) -> tuple[Any, ...]:
    events = tuple((event.event_time_ms, event.event_id, event.closes, *event.payload) for event in session.events)
    duration_ms = session.ended_at_ms - session.started_at_ms
    times = (session.started_at_ms, session.ended_at_ms, duration_ms)
    return (
        session.session_id,
        session.key,
        session.client,
        *times,
        session.event_count,
        session.close_reason.value,
        events,
    )


def open_row(admitted: AdmittedEvent) -> tuple[Any, ...]:
    event = admitted.event
    return (
        event.key,
        event.client,
        admitted.clock_ms,
        event.event_id,
        event.closes,
        admitted.timeout_ms,
        event.payload,
    )


def collected(table: DataFrame) -> Counter[tuple[Any, ...]]:
    """The rows, with times as epoch milliseconds."""
    return Counter(plain(tuple(row)) for row in table.collect())


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(plain(part) for part in value)
    return epoch_ms(value) if hasattr(value, "timestamp") else value


def epoch_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in RULES]
)
def test_closed_sessions_and_open_events_are_those_of_the_definition(
    history: DataFrame, past: tuple[Event, ...], name: str
) -> None:
    expected = by_definition(past, RULES[name], IN_THE_MIDDLE_MS)
    closed = sessionize_history(history, RULES[name], until_ms=IN_THE_MIDDLE_MS)
    assert collected(closed) == Counter(map(session_row, expected.closed))
    left = open_events(history, RULES[name], until_ms=IN_THE_MIDDLE_MS)
    assert collected(left) == Counter(map(open_row, expected.open_events))


@pytest.mark.parametrize("name", ["both caps", "no time"])
def test_without_an_end_every_session_closes(history: DataFrame, past: tuple[Event, ...], name: str) -> None:
    closed = sessionize_history(history, RULES[name], until_ms=None)
    assert collected(closed) == Counter(map(session_row, by_definition(past, RULES[name], None).closed))
    assert open_events(history, RULES[name], until_ms=None).isEmpty()


def test_the_histories_are_worth_comparing(past: tuple[Event, ...]) -> None:
    """Each reason, open and closed sessions, duplicates and conflicts occur often enough to be believed."""
    stopped = by_definition(past, RULES["both caps"], IN_THE_MIDDLE_MS)
    reasons = Counter(session.close_reason for session in stopped.closed)
    assert len(reasons) == 4
    assert min(*reasons.values(), len(stopped.open_events), len(stopped.conflicting), stopped.duplicates_dropped) > 25


def test_a_long_segment_is_cut_at_both_caps(spark: SparkSession) -> None:
    events = tuple(Event("ann", None, ORIGIN_MS + 7 * n + n % 3, f"e{n:05}", payload=("view", n)) for n in range(5_000))
    caps = rules(max_events=9, max_duration_ms=50)
    closed = sessionize_history(guarded(spark, events), caps, until_ms=None)
    assert collected(closed) == Counter(map(session_row, by_definition(events, caps, None).closed))


def test_keys_and_ids_with_a_nul_have_ids_of_their_own(spark: SparkSession) -> None:
    at = ORIGIN_MS
    pairs = [("a", f"b\0{at}\0c"), (f"a\0{at}\0b", "c"), ("é\0", "d"), ("plain", "e")]
    events = tuple(Event(key, None, at, event_id, payload=("view", 1)) for key, event_id in pairs)
    closed = sessionize_history(guarded(spark, events), rules(), until_ms=None)
    assert collected(closed) == Counter(map(session_row, by_definition(events, rules(), None).closed))
    assert closed.select("session_id").distinct().count() == len(pairs)


def test_events_need_no_payload(history: DataFrame) -> None:
    closed = sessionize_history(history.drop("payload"), rules(), until_ms=None)
    assert (
        closed.schema["events"].dataType.simpleString()
        == "array<struct<event_time:timestamp,event_id:string,closes:boolean>>"
    )


def test_a_history_has_no_arrival_times(history: DataFrame) -> None:
    with pytest.raises(InvalidSpec, match=r"rules\.time_mode is 'processing_time'"):
        sessionize_history(history, rules(Clock.PROCESSING_TIME), until_ms=None)
