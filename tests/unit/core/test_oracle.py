"""The definition of a session, rule by rule, on logs small enough to follow by hand."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.core.definition.event import AdmittedEvent, Batch, Event
from sessionizer.core.definition.oracle import cut, sessionize
from sessionizer.core.definition.outcome import CloseReason, Outcome, Session
from sessionizer.core.definition.rules import NEVER_MS, Caps, Clock, SessionRules
from support.expected.worked_examples import Example, ToldSession, read_examples
from support.places import REPOSITORY
from support.streams.in_memory_groups import InMemoryGroups, Row, event_rows_of
from support.streams.strategies import ORIGIN_MS, Log, OrderlyLog, drain_at, logs, orderly_logs


def event(event_id: str, at: int | None, **facts: Any) -> Event:
    return Event(**{"key": "ann", "client": "web", "event_time_ms": at, "event_id": event_id, **facts})


def rules(clock: Clock = Clock.EVENT_TIME, **others: Any) -> SessionRules:
    plain = {"watermark_delay_ms": 100, "gap_timeout_ms": 30, "client_timeouts_ms": {}}
    caps = Caps(**{name: others.pop(name) for name in Caps._fields if name in others})
    return SessionRules(clock=clock, caps=caps, **{**plain, **others})


def batch(*events: Event, at: int = 10_000, floor: int | None = None, **timeout_changes: int) -> Batch:
    """Of a clock that no event is ahead of, unless one is given."""
    return Batch(events, arrived_at_ms=at, floor_ms=floor, timeout_changes=timeout_changes)


def drained(*batches: Batch, **changed_rules: Any) -> Outcome:
    return sessionize([*batches, drain_at(10**6)], rules(**changed_rules))


def ids(session: Session) -> str:
    return "".join(event.event_id for event in session.events)


def sessions(outcome: Outcome) -> list[tuple[str, str]]:
    return [(ids(session), session.close_reason.value) for session in outcome.closed]


def open_ids(outcome: Outcome) -> str:
    return "".join(admitted.event.event_id for admitted in outcome.open_events)


def event_ids(events: list[Event]) -> str:
    return "".join(event.event_id for event in events)


class TestWatermark:
    def test_before_any_event_it_is_zero(self) -> None:
        assert sessionize([batch(event("a", 500))], rules()).watermark_ms == 0

    def test_a_conflicting_event_moves_it_as_any_valid_event_does(self) -> None:
        outcome = sessionize([batch(event("a", 500), event("a", 700)), batch()], rules())
        assert (event_ids(outcome.conflicting), outcome.watermark_ms) == ("a", 600)


class TestGap:
    @pytest.mark.parametrize(
        ("log", "timeouts"),
        [
            pytest.param(
                [batch(event("a", 100, timeout_ms=7), event("b", 200), event("c", 300, client=None))],
                [7, 11, 30],
                id="the event's own goes before the client's, and that before the stream's",
            ),
            pytest.param(
                [batch(event("a", 100)), batch(event("b", 101), web=20), batch(event("c", 102))],
                [11, 20, 20],
                id="a changed one holds from the events of its batch on",
            ),
            pytest.param(
                [batch(event("a", 100, timeout_ms=2**63 - 1), event("b", 200, client="app"), app=2**63 - 1)],
                [NEVER_MS, NEVER_MS],
                id="one longer than never counts as never",
            ),
        ],
    )
    def test_the_timeout_in_force(self, log: list[Batch], timeouts: list[int]) -> None:
        outcome = sessionize(log, rules(client_timeouts_ms={"web": 11}))
        assert [admitted.timeout_ms for admitted in outcome.open_events] == timeouts

    def test_a_timeout_too_long_for_the_calendar_is_closed_by_a_drain(self) -> None:
        assert sessions(drained(batch(event("a", 100, timeout_ms=NEVER_MS)))) == [("a", "gap")]


class TestCaps:
    def test_max_bytes_cuts_after_the_event_that_reaches_it(self) -> None:
        # eight bytes for each of key, client and id, and their text: 31; with the payload 31 + 8 + 1 and 31 + 8 + 2
        events = [event("a", 100, payload=("x",)), event("b", 101, payload=("é",)), event("c", 102, payload=("",))]
        assert [one.size for one in events] == [40, 41, 39]
        outcome = drained(batch(*events), max_bytes=81)
        assert sessions(outcome) == [("ab", "max_bytes"), ("c", "gap")]
        assert sessions(drained(batch(*events), max_bytes=82)) == [("abc", "max_bytes")]
        assert sessions(drained(batch(*events), max_bytes=121)) == [("abc", "gap")]

    def test_a_heavy_session_is_final_at_the_event_that_made_it_so(self) -> None:
        log = [batch(event("a", 100), event("b", 101))]
        assert sessions(sessionize([*log, batch(floor=100)], rules(max_bytes=62))) == []
        assert sessions(sessionize([*log, batch(floor=101)], rules(max_bytes=62))) == [("ab", "max_bytes")]

    def test_what_is_nested_counts_with_all_its_values(self) -> None:
        nested = event("a", 100, client=None, payload=((1, None, ("xyz", b"12")),))
        assert nested.size == (8 + 3) + (8 + 1) + 8 + (8 + 8 + (8 + 3) + (8 + 2))

    def test_the_duration_runs_anew_after_each_cut(self) -> None:
        outcome = drained(batch(*(event(name, 100 + 10 * n) for n, name in enumerate("abcdef"))), max_duration_ms=15)
        assert [found for found, _ in sessions(outcome)] == ["ab", "cd", "ef"]

    @pytest.mark.parametrize(
        ("last_of_session", "next_at", "reason"),
        [
            ({"closes": True}, 500, CloseReason.CLOSING_EVENT),
            ({}, 500, CloseReason.MAX_EVENTS),
            ({}, 129, CloseReason.MAX_EVENTS),
        ],
    )
    def test_of_several_reasons_the_first_is_named(
        self, last_of_session: dict[str, Any], next_at: int, reason: CloseReason
    ) -> None:
        log = batch(event("a", 100), event("b", 101, **last_of_session), event("c", next_at))
        assert sessions(drained(log, max_events=2, max_duration_ms=20))[0] == ("ab", reason)

    def test_a_gap_is_named_before_the_duration_it_exceeds(self) -> None:
        assert sessions(drained(batch(event("a", 100), event("b", 131)), max_duration_ms=20))[0] == ("a", "gap")


class TestDuplicates:
    def test_the_same_body_is_dropped_in_the_same_batch_and_in_a_later_one(self) -> None:
        outcome = sessionize([batch(event("a", 100), event("a", 100)), batch(event("a", 100))], rules())
        assert (outcome.duplicates_dropped, open_ids(outcome), outcome.conflicting) == (2, "a", [])

    def test_another_body_conflicts_while_the_session_is_open(self) -> None:
        other = event("a", 100, payload=("other",))
        outcome = sessionize([batch(event("a", 100, payload=("one",))), batch(other)], rules())
        assert (outcome.conflicting, open_ids(outcome)) == ([other], "a")

    @pytest.mark.parametrize(
        ("second", "first"),
        [
            pytest.param({"client": "web"}, {"client": None}, id="nulls come first"),
            pytest.param({"payload": (float("nan"),)}, {"payload": (9.0,)}, id="NaN comes last"),
        ],
    )
    def test_within_a_batch_the_body_orders(self, second: dict[str, Any], first: dict[str, Any]) -> None:
        outcome = sessionize([batch(event("a", 100, **second), event("a", 100, **first))], rules())
        assert [admitted.event for admitted in outcome.open_events] == [event("a", 100, **first)]

    @pytest.mark.parametrize(("own_ms", "in_force_ms"), [(29, 29), (31, 30)])
    def test_another_timeout_is_no_other_body_and_the_shortest_comes_first(self, own_ms: int, in_force_ms: int) -> None:
        outcome = sessionize([batch(event("a", 100, timeout_ms=own_ms), event("a", 100))], rules())
        assert [admitted.timeout_ms for admitted in outcome.open_events] == [in_force_ms]
        assert outcome.duplicates_dropped == 1

    @pytest.mark.parametrize(("first", "second"), [(float("nan"), float("nan")), (0.0, -0.0)])
    def test_nan_and_the_two_zeros_are_the_same_value_again(self, first: float, second: float) -> None:
        outcome = sessionize([batch(event("a", 100, payload=(first,)), event("a", 100, payload=(second,)))], rules())
        assert (outcome.duplicates_dropped, outcome.conflicting) == (1, [])

    def test_a_late_event_is_late_before_it_is_a_duplicate(self) -> None:
        outcome = sessionize([batch(event("a", 100)), batch(event("a", 100), floor=100)], rules())
        assert (event_ids(outcome.late), outcome.duplicates_dropped, open_ids(outcome)) == ("a", 0, "a")

    def test_a_conflicting_event_is_not_what_later_ones_are_compared_with(self) -> None:
        other = event("a", 101)
        outcome = sessionize([batch(event("a", 100)), batch(other), batch(other)], rules())
        assert outcome.conflicting == [other, other]


class TestProcessingTime:
    MODE = Clock.PROCESSING_TIME

    def test_the_clock_is_the_arrival_of_the_batch(self) -> None:
        outcome = sessionize([batch(event("a", 7), at=1000), batch(event("b", None), at=1030)], rules(self.MODE))
        found = [(admitted.clock_ms, admitted.event.event_id) for admitted in outcome.open_events]
        assert found == [(1000, "a"), (1030, "b")]

    @pytest.mark.parametrize(
        ("at_the_timeout", "closed"),
        [(batch(event("b", 8), at=1030), []), (batch(at=1029), []), (batch(at=1030), [("a", "gap")])],
        ids=["an event extends the session", "it is not due", "an empty batch closes it"],
    )
    def test_a_batch_at_the_timeout(self, at_the_timeout: Batch, closed: list[tuple[str, str]]) -> None:
        assert sessions(sessionize([batch(event("a", 7), at=1000), at_the_timeout], rules(self.MODE))) == closed

    def test_nothing_is_late_and_event_time_orders_a_batch(self) -> None:
        outcome = drained(batch(event("a", 9), event("b", 3), event("c", None), at=1000), clock=self.MODE)
        assert (sessions(outcome), outcome.late) == ([("cba", "gap")], [])

    def test_a_closing_event_closes_in_its_own_batch(self) -> None:
        outcome = sessionize([batch(event("a", 9, closes=True), event("b", 10), at=1000)], rules(self.MODE))
        assert (sessions(outcome), open_ids(outcome)) == ([("a", "closing_event")], "b")

    def test_a_duplicate_in_the_batch_of_the_closing_event_is_dropped_and_in_the_next_is_new(self) -> None:
        closing = event("a", 9, closes=True)
        outcome = sessionize([batch(closing, closing, at=1000), batch(closing, at=1001)], rules(self.MODE))
        assert (len(outcome.closed), outcome.duplicates_dropped) == (2, 1)

    def test_a_floor_short_of_a_drain_closes_nothing(self) -> None:
        log = [batch(event("a", 7), at=1000), batch(event("b", 8), at=1001, floor=1031), batch(event("c", 9), at=1002)]
        outcome = sessionize(log, rules(self.MODE))
        assert (sessions(outcome), open_ids(outcome)) == ([], "abc")


class TestNoTimeMode:
    MODE = Clock.NONE

    def test_no_timeout_of_any_kind_closes_a_session(self) -> None:
        log = [batch(event("a", 7, timeout_ms=5), at=1000), batch(at=10**15)]
        outcome = sessionize(log, rules(self.MODE, client_timeouts_ms={"web": 1}))
        assert (sessions(outcome), open_ids(outcome)) == ([], "a")

    def test_duration_runs_on_arrival(self) -> None:
        log = [batch(event("a", 1), at=1000), batch(event("b", 2), at=1011)]
        outcome = sessionize(log, rules(self.MODE, max_duration_ms=10))
        assert (sessions(outcome), open_ids(outcome)) == ([("a", "max_duration")], "b")

    def test_a_drain_closes_the_rest(self) -> None:
        assert sessions(drained(batch(event("a", 1), at=1000), clock=self.MODE)) == [("a", "gap")]


def test_a_session_row_tells_of_its_first_and_last_event() -> None:
    (session,) = drained(batch(event("a", 100), event("b", 110, client="app"))).closed
    assert session.session_id == sha256(b"ann\x00100\x00a").hexdigest()[:32]
    found = (session.key, session.client, session.started_at_ms, session.ended_at_ms, session.event_count)
    assert found == ("ann", "web", 100, 110, 2)


def test_ids_of_sessions_whose_keys_and_events_have_a_nul_are_theirs_alone() -> None:
    inside_id, inside_key = event("b\x001\x00c", 1, key="a"), event("c", 1, key="a\x001\x00b")
    found = drained(batch(inside_id, inside_key)).closed
    assert [session.session_id for session in found] == [
        sha256(b"a\x001\x00b\x001\x00c\x001").hexdigest()[:32],
        sha256(b"a\x001\x00b\x001\x00c\x005").hexdigest()[:32],
    ]


EVENT_TIME = [Clock.EVENT_TIME]
LATER_MS = 2 * ORIGIN_MS
"""The clock of a batch that no event is ahead of."""


def admitted(outcome: Outcome) -> list[Event]:
    in_sessions = [event for session in outcome.closed for event in session.events]
    return in_sessions + [open_event.event for open_event in outcome.open_events]


@given(logs())
def test_every_event_is_in_exactly_one_place(log: Log) -> None:
    outcome = sessionize(log.batches, log.rules)
    given_events = Counter(event for batch in log.batches for event in batch.events)
    kept = Counter(admitted(outcome) + outcome.late + outcome.conflicting)
    assert kept <= given_events
    assert (given_events - kept).total() == outcome.duplicates_dropped


@given(logs(drained=True))
def test_a_drain_leaves_nothing_open(log: Log) -> None:
    assert sessionize(log.batches, log.rules).open_events == []


@given(logs(), st.randoms(use_true_random=False))
def test_the_order_inside_a_batch_does_not_matter(log: Log, random: Random) -> None:
    shuffled = [replace(batch, events=tuple(random.sample(batch.events, len(batch.events)))) for batch in log.batches]
    assert as_decided(sessionize(shuffled, log.rules)) == as_decided(sessionize(log.batches, log.rules))


def as_decided(outcome: Outcome) -> Outcome:
    """Without the events' own timeouts: of two copies whose timeout in force is the same either may be the first."""

    def plain(events: Iterable[Event]) -> list[Event]:
        return [replace(event, timeout_ms=None) for event in events]

    return replace(
        outcome,
        closed=[replace(session, events=tuple(plain(session.events))) for session in outcome.closed],
        open_events=[
            replace(admitted, event=replace(admitted.event, timeout_ms=None)) for admitted in outcome.open_events
        ],
        late=plain(outcome.late),
        conflicting=plain(outcome.conflicting),
    )


@given(orderly_logs(), st.lists(st.integers(0, 60)))
def test_the_division_into_batches_does_not_matter_where_nothing_is_late_or_conflicting(
    log: OrderlyLog, boundaries: list[int]
) -> None:
    """The order of arrival is kept, and each event is above the highest time of *all* before it less the delay.

    So none is late under any division. An id has one body and one timeout: it does not matter which copy is the first.
    """
    at_once = sessionize([Batch(log.events, LATER_MS), drain_at(LATER_MS + 1)], log.rules)
    divided = sessionize([*divide(log.events, boundaries), drain_at(LATER_MS + 1000)], log.rules)
    assert (divided.late, divided.conflicting) == ([], [])
    assert divided.duplicates_dropped == at_once.duplicates_dropped
    assert by_key_and_time(divided.closed) == by_key_and_time(at_once.closed)


def divide(events: Sequence[Event], boundaries: Iterable[int]) -> list[Batch]:
    edges = sorted({0, len(events), *(min(boundary, len(events)) for boundary in boundaries)})
    return [Batch(tuple(events[start:end]), arrived_at_ms=LATER_MS + end) for start, end in pairwise(edges)]


def by_key_and_time(sessions: Iterable[Session]) -> list[Session]:
    return sorted(
        sessions, key=lambda session: (session.key, session.started_at_ms, session.events[0].closes, session.session_id)
    )


@given(logs(EVENT_TIME, drained=False), st.integers(0))
def test_a_batch_that_comes_again_adds_only_late_events_and_duplicates(log: Log, choice: int) -> None:
    """Of a batch whose conflicting events are left out: the session they conflicted with may be final by now."""
    if not log.batches:
        return
    outcome = sessionize(log.batches, log.rules)
    batch = log.batches[choice % len(log.batches)]
    again = Batch(tuple(event for event in batch.events if event not in outcome.conflicting), NEVER_MS)
    replayed = sessionize([*log.batches, again], log.rules)
    without = sessionize([*log.batches, Batch((), NEVER_MS)], log.rules)
    assert (replayed.closed, replayed.open_events) == (without.closed, without.open_events)
    assert replayed.conflicting == without.conflicting
    added = len(replayed.late) - len(without.late) + replayed.duplicates_dropped - without.duplicates_dropped
    assert added == len(again.events)


@given(logs())
def test_a_final_session_stays_as_it_is(log: Log) -> None:
    steps = [sessionize(log.batches[:count], log.rules) for count in range(len(log.batches) + 1)]
    for earlier, later in pairwise(steps):
        assert later.closed[: len(earlier.closed)] == earlier.closed
        assert earlier.watermark_ms <= later.watermark_ms or log.rules.clock is not Clock.EVENT_TIME


@given(logs(EVENT_TIME, drained=False))
def test_closing_step_by_step_equals_cutting_all_admitted_events_at_once(log: Log) -> None:
    """Nothing that came later could have changed what was closed earlier: the stream equals the batch."""
    in_steps = sessionize(log.batches, log.rules)
    at_once = [
        (session_key, tuple(event.event for event in stretch.events), stretch.close_reason)
        for session_key, events in admitted_by_key(log).items()
        for stretch in cut(events)
        if stretch.due_ms <= in_steps.watermark_ms
    ]
    assert Counter(at_once) == Counter((found.key, found.events, found.close_reason) for found in in_steps.closed)


def admitted_by_key(log: Log) -> dict[str, set[AdmittedEvent]]:
    """Every event that was ever open, found by looking at the stream before it closes anything: after each batch."""
    ever_open: dict[str, set[AdmittedEvent]] = {}
    for count in range(1, len(log.batches) + 1):
        for open_event in sessionize(log.batches[:count], log.rules).open_events:
            ever_open.setdefault(open_event.event.key, set()).add(open_event)
    return ever_open


@given(logs())
def test_session_ids_are_unique(log: Log) -> None:
    ids = [session.session_id for session in sessionize(log.batches, log.rules).closed]
    assert len(set(ids)) == len(ids)


PAGE = REPOSITORY / "docs" / "sessions.md"
EXAMPLES = read_examples(PAGE)
by_line = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"line {example.line}")


@by_line
def test_the_definition_does_as_the_page_says(example: Example) -> None:
    before = sessionize((), example.rules)
    for number, told in enumerate(example.told, start=1):
        after = sessionize(example.batches[:number], example.rules)
        closed = after.closed[len(before.closed) :]
        assert Counter(map(plain, closed)) == Counter((told.events, told.reason) for told in told.sessions)
        for session in told.sessions:
            assert facts_of(next(found for found in closed if found.events == session.events), session) == session.facts
        assert Counter(after.late[len(before.late) :]) == Counter(told.late)
        assert Counter(after.conflicting[len(before.conflicting) :]) == Counter(told.conflicting)
        assert after.duplicates_dropped - before.duplicates_dropped == len(told.repeated)
        assert told.watermark_ms in (None, after.watermark_ms)
        before = after
    assert Counter(admitted.event for admitted in before.open_events) == Counter(example.open_events)


@by_line
def test_the_arrow_core_does_as_the_page_says(example: Example) -> None:
    groups = InMemoryGroups(example.rules, key_groups=2)
    for batch in example.batches:
        groups.take(batch)
    sessions, open_events = groups.settle()
    assert Counter(map(told_by_core, sessions)) == Counter(
        (tuple(event.event_id for event in session.events), session.events[0].key, session.reason)
        for told in example.told
        for session in told.sessions
    )
    assert open_events == event_rows_of(example.open_events)
    assert groups.late == event_rows_of(event for told in example.told for event in told.late)
    assert groups.conflicting == event_rows_of(event for told in example.told for event in told.conflicting)
    assert groups.repeated == sum(len(told.repeated) for told in example.told)


def test_the_examples_are_read_and_show_all_that_can_happen() -> None:
    told = [told for example in EXAMPLES for told in example.told]
    reasons = {session.reason for each in told for session in each.sessions}
    assert reasons == {"closing_event", "gap", "max_events", "max_bytes", "max_duration"}
    assert all(any(getattr(each, what) for each in told) for what in ("late", "repeated", "conflicting"))


def plain(session: Session) -> tuple[Any, ...]:
    return (session.events, session.close_reason.value)


def facts_of(session: Session, told: ToldSession) -> dict[str, str]:
    found = {
        "client": str(session.client),
        "from": str(session.started_at_ms),
        "until": str(session.ended_at_ms),
        "id": session.session_id,
    }
    return {name: found[name] for name in told.facts}


def told_by_core(row: Row) -> tuple[Any, ...]:
    key, _client, _started, _ended, _count, reason, _first, events = row
    assert isinstance(events, tuple)
    return (tuple(event[0] for event in events), key, reason)
