"""When a group merges: in a backlog in every second batch, and what is final never waits for longer than that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.definition.event import Batch, Event, drain_at
from sessionizer.core.definition.rules import Clock, SessionRules
from sessionizer.core.key_group.append_or_merge import Arrivals, BatchBounds, GroupRules, MergeSchedule, take_batch
from support.expected.emission import owed_by_batch
from support.streams.in_memory_groups import PAYLOAD, InMemoryGroups, event_table, row_of
from support.streams.strategies import Log, delayed, logs

STEP_MS = 30
DELAY_MS = 10
BEHIND_MS = 100_000
RULES = SessionRules(
    clock=Clock.EVENT_TIME,
    watermark_delay_ms=DELAY_MS,
    gap_timeout_ms=5,
    client_timeouts_ms={},
    max_events=None,
    max_duration_ms=None,
    emit_every_ms=STEP_MS,
)


def batch_until(last_ms: int) -> Batch:
    """A session that is over at once, and an event of ``last_ms``: the next watermark is the delay behind that."""
    times = (last_ms - 40, last_ms)
    events = [Event(f"user-{at}", None, at, f"id-{at}", payload=(None, None)) for at in times]
    return Batch(tuple(events), arrived_at_ms=last_ms + BEHIND_MS)


def emitted_per_batch(rules: SessionRules, *batches: Batch) -> list[int]:
    groups, counts = InMemoryGroups(rules, key_groups=1), [0]
    for batch in batches:
        groups.take(batch)
        counts.append(len(groups.sessions))
    return [after - before for before, after in pairwise(counts)]


def test_in_a_backlog_every_second_batch_merges() -> None:
    batches = [batch_until(1_000 * number) for number in range(1, 8)]
    assert emitted_per_batch(RULES, *batches) == [0, 1, 0, 4, 0, 4, 0]


def test_the_batch_after_a_backlog_brings_what_waited_with_or_without_new_data() -> None:
    batches = [batch_until(1_000), batch_until(2_000), batch_until(3_000)]
    nothing_new = Batch((), arrived_at_ms=3_001 + BEHIND_MS)
    assert emitted_per_batch(RULES, *batches, nothing_new) == [0, 1, 0, 4]


def test_a_stream_that_keeps_up_merges_in_every_batch() -> None:
    batches = [batch_until(1_000 * number) for number in range(1, 8)]
    live = [replace(batch, arrived_at_ms=batch.arrived_at_ms - BEHIND_MS + 900) for batch in batches]
    assert emitted_per_batch(RULES, *live) == [0, 1, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("rules", "advance_ms", "behind_ms", "appended", "merges"),
    [
        (RULES, STEP_MS, STEP_MS, 0, False),
        (RULES, STEP_MS, STEP_MS - 1, 0, True),  # no other batch like this one is waiting
        (RULES, STEP_MS - 1, BEHIND_MS, 0, True),  # the next batch may be less than a step ahead
        (RULES, STEP_MS, BEHIND_MS, 1, True),  # it has waited
        (replace(RULES, emit_every_ms=0), 1_000, BEHIND_MS, 0, True),  # all is to come out at once
    ],
)
def test_what_is_due_waits_once_and_in_a_backlog_only(
    rules: SessionRules, advance_ms: int, behind_ms: int, appended: int, merges: bool
) -> None:
    now, newest = 10_000, 10_000 + DELAY_MS + advance_ms
    events = event_table(batch_until(newest).events, rules, arrived_at_ms=0)
    shared, planned = GroupRules(rules, PAYLOAD, key_groups=1), MergeSchedule(now, appended)
    step = take_batch(0, shared, planned, Arrivals([events]), BatchBounds(now, now, newest + behind_ms), list)
    assert (step.merged is not None) == merges
    if not merges:
        assert step.append is not None
        assert step.plan == MergeSchedule(now + 1, 1), "due again as soon as the clock moves"


def test_a_drain_after_a_backlog_leaves_nothing() -> None:
    batches = [batch_until(1_000), batch_until(2_000), batch_until(3_000), drain_at(3_001)]
    assert emitted_per_batch(RULES, *batches) == [0, 1, 0, 5]


any_log_in_event_time = given(
    log=logs([Clock.EVENT_TIME]), key_groups=st.integers(1, 3), emit_every_ms=st.sampled_from([1, 7, STEP_MS])
)


@settings(max_examples=100, deadline=None)
@any_log_in_event_time
def test_what_was_final_a_step_before_the_batch_before_is_out(log: Log, key_groups: int, emit_every_ms: int) -> None:
    assert_out_a_step_and_a_batch_later(log, key_groups, emit_every_ms)


@pytest.mark.long
@settings(max_examples=500, deadline=None)
@any_log_in_event_time
def test_what_was_final_in_many_logs_is_out(log: Log, key_groups: int, emit_every_ms: int) -> None:
    assert_out_a_step_and_a_batch_later(log, key_groups, emit_every_ms)


def assert_out_a_step_and_a_batch_later(log: Log, key_groups: int, emit_every_ms: int) -> None:
    rules = replace(log.rules, emit_every_ms=emit_every_ms)
    log = delayed(log, BEHIND_MS)
    groups = InMemoryGroups(rules, key_groups)
    for batch, owed in zip(log.batches, owed_by_batch(log.batches, rules), strict=True):
        groups.take(batch)
        assert not Counter(map(row_of, owed)) - Counter(groups.sessions)
