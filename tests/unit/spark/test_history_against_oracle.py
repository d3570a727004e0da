"""A history taken at once against the definition: many histories in one table, each under keys of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import NEVER_MS, Clock, SessionRules
from sessionizer.core.key_group.table_rows import NOWHERE
from sessionizer.core.key_group.table_rows import session_rows as table_rows
from sessionizer.core.wire import schema as rows
from sessionizer.core.wire.codec import decode
from sessionizer.spark.history.read import FirstBatch
from support.streams.in_memory_groups import PAYLOAD, event_row_of, event_rows, event_table, plain_rows, row_of
from support.streams.in_memory_groups import session_rows as rows_of_sessions
from support.streams.strategies import ORIGIN_MS, examples_of, histories

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from sessionizer.core.definition.event import Outcome

HISTORIES = 150
IN_THE_MIDDLE_MS = ORIGIN_MS + 120


def rules(**others: Any) -> SessionRules:
    plain = {
        "watermark_delay_ms": 0,
        "gap_timeout_ms": 20,
        "client_timeouts_ms": {},
        "max_events": None,
        "max_duration_ms": None,
    }
    return SessionRules(clock=Clock.EVENT_TIME, **{**plain, **others})


RULES = {
    "client timeouts": rules(client_timeouts_ms={"app": 10, "tv": 50}),
    "max events": rules(max_events=2),
    "max duration": rules(max_duration_ms=20),
    "max bytes": rules(max_bytes=100, gap_timeout_ms=50),
    "all caps": rules(max_bytes=90, max_events=3, max_duration_ms=30, gap_timeout_ms=50),
    "both caps": rules(max_events=3, max_duration_ms=30, gap_timeout_ms=50),
    "no time": rules(gap_timeout_ms=NEVER_MS, max_events=5, max_duration_ms=60),
}


@pytest.fixture(scope="module")
def past() -> tuple[Event, ...]:
    found = enumerate(examples_of(histories(), HISTORIES))
    return tuple(replace(event, key=f"{number}/{event.key}") for number, history in found for event in history)


def decide_by_definition(events: tuple[Event, ...], given: SessionRules, until_ms: int) -> Outcome:
    """The one batch, and then the watermark alone: with this delay no event of the batch can move it."""
    end = Batch((), arrived_at_ms=2, floor_ms=until_ms)
    return sessionize([Batch(events, arrived_at_ms=1), end], replace(given, watermark_delay_ms=NEVER_MS))


def take(events: tuple[Event, ...], given: SessionRules, until_ms: int) -> pa.Table:
    first = FirstBatch(given, until_ms, PAYLOAD, PAYLOAD, keeps_later=True)
    return first.take(event_table(events, given, 0))


def tables_in(taken: pa.Table, kind: str) -> Iterator[pa.Table]:
    return (decode(row["blob"]) for row in taken.to_pylist() if row["kind"] == kind)


def closed_in(taken: pa.Table) -> Counter[Any]:
    return Counter(row for table in tables_in(taken, rows.SESSIONS) for row in rows_of_sessions(table))


def open_in(taken: pa.Table) -> Counter[Any]:
    """The open events, each with the timeout in force."""
    found = Counter[Any]()
    for table in tables_in(taken, rows.OPEN_EVENTS):
        renamed = table.rename_columns({"clock_ms": "clock"}).drop_columns(["key_group", "admission"])
        for number, timeout_ms in enumerate(renamed["timeout_ms"].to_pylist()):
            ((row, _),) = event_rows(renamed.slice(number, 1)).items()
            found[(row, timeout_ms)] += 1
    return found


@pytest.mark.parametrize("name", RULES)
def test_closed_sessions_and_open_events_are_those_of_the_definition(past: tuple[Event, ...], name: str) -> None:
    expected = decide_by_definition(past, RULES[name], IN_THE_MIDDLE_MS)
    taken = take(past, RULES[name], IN_THE_MIDDLE_MS)
    assert closed_in(taken) == Counter(map(row_of, expected.closed))
    assert open_in(taken) == Counter(
        (event_row_of(admitted.event), admitted.timeout_ms) for admitted in expected.open_events
    )


@pytest.mark.parametrize("name", ["both caps", "no time"])
def test_without_an_end_every_session_closes(past: tuple[Event, ...], name: str) -> None:
    taken = take(past, RULES[name], NEVER_MS)
    assert closed_in(taken) == Counter(map(row_of, decide_by_definition(past, RULES[name], NEVER_MS).closed))
    assert not open_in(taken)


def test_the_histories_are_worth_comparing(past: tuple[Event, ...]) -> None:
    """Each reason, open and closed sessions, duplicates and conflicts occur often enough to be believed."""
    stopped = decide_by_definition(past, RULES["both caps"], IN_THE_MIDDLE_MS)
    reasons = Counter(session.close_reason for session in stopped.closed)
    assert len(reasons) == 4
    assert min(*reasons.values(), len(stopped.open_events), len(stopped.conflicting), stopped.duplicates_dropped) > 25


def test_a_long_stretch_is_cut_at_both_caps() -> None:
    events = tuple(Event("ann", None, ORIGIN_MS + 7 * n + n % 3, f"e{n:05}", payload=("view", n)) for n in range(5_000))
    caps = rules(max_events=9, max_duration_ms=50)
    expected = decide_by_definition(events, caps, NEVER_MS)
    assert closed_in(take(events, caps, NEVER_MS)) == Counter(map(row_of, expected.closed))


def test_keys_and_ids_with_a_nul_have_ids_of_their_own() -> None:
    at = ORIGIN_MS
    pairs = [("a", f"b\0{at}\0c"), (f"a\0{at}\0b", "c"), ("é\0", "d"), ("plain", "e")]
    events = tuple(Event(key, None, at, event_id, payload=("view", 1)) for key, event_id in pairs)
    shape = table_rows(PAYLOAD, keep_events=False)
    found = [
        row["session_id"]
        for table in tables_in(take(events, rules(), NEVER_MS), rows.SESSIONS)
        for batch in table.to_batches()
        for row in plain_rows(shape.rows(batch, NOWHERE))
    ]
    assert sorted(found) == sorted(each.session_id for each in decide_by_definition(events, rules(), NEVER_MS).closed)
    assert len(set(found)) == len(pairs)
