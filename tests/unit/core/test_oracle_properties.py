"""What holds for the definition of a session on any log."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from sessionizer.core.definition.event import AdmittedEvent, Batch, drain_at
from sessionizer.core.definition.oracle import cut, sessionize
from sessionizer.core.definition.rules import NEVER_MS, Clock
from support.streams.strategies import ORIGIN_MS, Log, OrderlyLog, logs, orderly_logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from sessionizer.core.definition.event import Event, Outcome, Session

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
