"""The snapshot of open sessions against the definition, and what a reader shows of it once sessions have ended."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given

from sessionizer.core.definition.oracle import cut, sessionize
from sessionizer.core.key_group.contents import open_schema, take_snapshot
from sessionizer.core.key_group.table_rows import open_rows, session_rows
from sessionizer.stream_spec.document.stream import OPEN_COLUMNS
from support.streams.in_memory_groups import PAYLOAD, InMemoryGroups, plain_rows
from support.streams.strategies import Log, logs

Row = dict[str, Any]
OF_BOTH = ("key", "client", "started_at", "ended_at", "event_count", "first_event_id")


@dataclass(slots=True)
class Told:
    """Output of the batches of a log: the sessions with the batch that emitted each, and a snapshot after each."""

    closed: list[tuple[int, tuple[Any, ...], frozenset[str]]]
    snapshots: list[list[Row]]


def tell(log: Log) -> Told:
    groups, told = InMemoryGroups(log.rules, key_groups=2), Told([], [])
    groups.shared = replace(groups.shared, shows_events=True)
    for number, batch in enumerate(log.batches):
        before = len(groups.sessions)
        groups.take(batch)
        for session in groups.sessions[before:]:
            key, client, started, ended, count, _, first_id, events = session
            ids = frozenset(str(event[0]) for event in events)  # type: ignore[attr-defined]
            told.closed.append((number, (key, client, started, ended, count, first_id), ids))
        parts = [
            part
            for place, group in enumerate(groups.groups)
            for part in take_snapshot(group.stored(), place, groups.shared, groups.final_by)
        ]
        assert all(part.schema.equals(open_schema(groups.shared.payload, shows_events=True)) for part in parts)
        places = [place for part in parts for place in part.column("_place").to_pylist()]
        assert len(set(places)) == len(places)
        told.snapshots.append([row for part in parts for row in plain_rows(part)])
    return told


def in_ms(row: Row) -> tuple[Any, ...]:
    renamed = {**row, "started_at": row["started_at"] // 1000, "ended_at": row["last_event_at"] // 1000}
    return tuple(renamed[name] for name in OF_BOTH)


def has_part_in(row: Row, session: tuple[Any, ...], ids: frozenset[str]) -> bool:
    """Whether they share an event. An id may come again after its session, at another time."""
    key, _, started, ended, *_ = in_ms(row)
    overlaps = session[0] == key and session[2] <= ended and session[3] >= started
    return overlaps and any(event["event_id"] in ids for event in row["events"])


@given(logs())
def test_emitted_and_open_sessions_are_those_of_the_definition(log: Log) -> None:
    told = tell(log)
    for number, snapshot in enumerate(told.snapshots):
        outcome = sessionize(log.batches[: number + 1], log.rules)
        by_key: dict[str, list[Any]] = {}
        for admitted in outcome.open_events:
            by_key.setdefault(admitted.event.key, []).append(admitted)
        expected = Counter(
            (each.key, each.client, each.started_at_ms, each.ended_at_ms, each.event_count, each.events[0].event_id)
            for each in outcome.closed
        )
        for key, events in by_key.items():
            for stretch in cut(events):
                first, last = stretch.events[0], stretch.events[-1]
                head = (key, first.event.client, first.clock_ms, last.clock_ms)
                expected[(*head, len(stretch.events), first.event.event_id)] += 1
        emitted = Counter(row for batch, row, _ in told.closed if batch <= number)
        assert emitted + Counter(map(in_ms, snapshot)) == expected


@given(logs())
def test_an_open_session_is_shown_until_a_part_of_it_has_ended(log: Log) -> None:
    told = tell(log)
    for taken, snapshot in enumerate(told.snapshots):
        for now in range(taken, len(log.batches)):
            since = [(row, ids) for batch, row, ids in told.closed if taken < batch <= now]
            for row in snapshot:
                has_ended = any(has_part_in(row, each, ids) for each, ids in since)
                assert is_shown(row, since) == (not has_ended)


def is_shown(row: Row, since: Iterable[tuple[tuple[Any, ...], frozenset[str]]]) -> bool:
    """The rule of docs/reading-tables.md."""
    key, _, started, *_ = in_ms(row)
    return not any(
        of == key and (ended > started or (ended == started and row["first_event_id"] in ids))
        for (of, _, _, ended, *_), ids in since
    )


@given(logs())
def test_a_settled_session_keeps_its_first_event(log: Log) -> None:
    told = tell(log)
    for taken, snapshot in enumerate(told.snapshots):
        for row in snapshot:
            parts = [each for batch, each, ids in told.closed if batch > taken and has_part_in(row, each, ids)]
            if row["settled"] and parts:
                key, client, started, _, _, first_id = in_ms(row)
                assert (key, client, started, first_id) in {(each[0], each[1], each[2], each[5]) for each in parts}


def test_the_names_that_no_measure_may_have_are_the_columns_of_open_sessions_alone() -> None:
    shown, closed = open_rows(PAYLOAD, shows_events=False).schema, session_rows(PAYLOAD, keep_events=False).schema
    assert {*shown.names} - {*closed.names} == OPEN_COLUMNS
