"""The Arrow core equals the oracle, whatever comes and however a group's state was appended to and merged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.definition.event import AdmittedEvent, Batch
from sessionizer.core.definition.oracle import cut, sessionize
from sessionizer.core.definition.rules import NEVER_MS, Clock
from sessionizer.core.key_group import merging
from sessionizer.core.key_group.group_load import latest
from sessionizer.core.wire import codec as wide
from support.streams.in_memory_groups import InMemoryGroups, Row, event_row_of, row_of
from support.streams.strategies import ChangingLog, Log, changing_logs, delayed, lags_ms, logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessionizer.core.definition.event import Event, Outcome


any_log = given(
    log=logs(), key_groups=st.integers(1, 3), emit_every_ms=st.sampled_from([0, 7, 30]), behind_ms=lags_ms()
)
any_changing_log = given(
    changing=changing_logs(), key_groups=st.integers(1, 3), emit_every_ms=st.sampled_from([0, 7, 30])
)


@settings(max_examples=150, deadline=None)
@any_log
def test_closed_open_late_and_conflicting_equal_the_oracle(
    log: Log, key_groups: int, emit_every_ms: int, behind_ms: int
) -> None:
    assert_as_the_oracle(log, key_groups, emit_every_ms, behind_ms)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=10_000, deadline=None)
@any_log
def test_many_logs_equal_the_oracle(log: Log, key_groups: int, emit_every_ms: int, behind_ms: int) -> None:
    assert_as_the_oracle(log, key_groups, emit_every_ms, behind_ms)


def assert_as_the_oracle(log: Log, key_groups: int, emit_every_ms: int, behind_ms: int) -> None:
    log = delayed(log, behind_ms)
    expected = sessionize(log.batches, log.rules)
    groups = InMemoryGroups(replace(log.rules, emit_every_ms=emit_every_ms), key_groups)
    for batch in log.batches:
        groups.take(batch)
    emitted = Counter(groups.sessions)
    sessions, open_events = groups.settle()
    assert not emitted - Counter(map(row_of, expected.closed)), "emitted before it was final"
    assert Counter(sessions) == Counter(map(row_of, expected.closed))
    assert open_events == events_of(admitted.event for admitted in expected.open_events)
    assert groups.late == events_of(expected.late)
    assert groups.conflicting == events_of(expected.conflicting)
    assert groups.repeated == expected.duplicates_dropped


@pytest.fixture(scope="module")
def everything_is_large() -> Iterator[None]:
    """Each merge has wide offsets, and whatever leaves it leaves in pieces of an event or two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wide, "WIDE_FROM_BYTES", 0)
        patch.setattr(wide, "PIECE_BYTES", 100)
        yield


@pytest.mark.usefixtures("everything_is_large")
@settings(max_examples=150, deadline=None)
@given(log=logs())
def test_large_groups_equal_the_oracle(log: Log) -> None:
    expected = sessionize(log.batches, log.rules)
    groups = InMemoryGroups(log.rules, key_groups=1)
    for batch in log.batches:
        groups.take(batch)
    sessions, open_events = groups.settle()
    assert Counter(sessions) == Counter(map(row_of, expected.closed))
    assert open_events == events_of(admitted.event for admitted in expected.open_events)
    assert groups.repeated == expected.duplicates_dropped


@pytest.fixture(scope="module")
def no_log_is_written_anew() -> Iterator[None]:
    """Each merge only adds tombstones, as long as anything is open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "DELETED_BEFORE_REWRITE", 1)
        patch.setattr(merging, "TABLES_BEFORE_REWRITE", NEVER_MS)
        yield


@pytest.mark.usefixtures("no_log_is_written_anew")
@settings(max_examples=150, deadline=None)
@any_log
def test_logs_with_tombstones_equal_the_oracle(log: Log, key_groups: int, emit_every_ms: int, behind_ms: int) -> None:
    assert_as_the_oracle(log, key_groups, emit_every_ms, behind_ms)


@settings(max_examples=150, deadline=None)
@given(log=logs(drained=True), key_groups=st.integers(1, 3), behind_ms=lags_ms())
def test_a_drain_leaves_nothing_to_settle(log: Log, key_groups: int, behind_ms: int) -> None:
    log = delayed(log, behind_ms)
    groups = InMemoryGroups(replace(log.rules, emit_every_ms=30), key_groups)
    for batch in log.batches:
        groups.take(batch)
    outcome: Outcome = sessionize(log.batches, log.rules)
    assert Counter(groups.sessions) == Counter(map(row_of, outcome.closed))
    assert all(not group.log for group in groups.groups)


@settings(max_examples=150, deadline=None)
@given(log=logs([Clock.EVENT_TIME]), key_groups=st.integers(1, 3), emit_every_ms=st.sampled_from([0, 7, 30]))
def test_a_floor_where_the_last_open_session_is_over_closes_all_that_ever_close(
    log: Log, key_groups: int, emit_every_ms: int
) -> None:
    """So a quiet source needs no higher one. What groups say is open is never less than what is.

    Without caps: a group looks for those when the gap of one of its events is over.
    """
    log = replace(log, rules=replace(log.rules, max_events=None, max_duration_ms=None, max_bytes=None))
    groups = InMemoryGroups(replace(log.rules, emit_every_ms=emit_every_ms), key_groups)
    for batch in log.batches:
        groups.take(batch)
    open_keys = {admitted.event.key for admitted in sessionize(log.batches, log.rules).open_events}
    assert sum(group.open_in_group.sessions for group in groups.groups) >= len(open_keys)
    floor_ms = latest(*(group.open_in_group.latest_due_ms for group in groups.groups))
    quiet = Batch((), arrived_at_ms=10**15, floor_ms=floor_ms)
    groups.take(quiet)
    outcome = sessionize([*log.batches, quiet], log.rules)
    assert Counter(groups.sessions) == Counter(map(row_of, outcome.closed))
    assert all(admitted.deadline_ms == NEVER_MS for admitted in last_of_sessions(outcome))


def last_of_sessions(outcome: Outcome) -> list[AdmittedEvent]:
    by_key: dict[str, list[AdmittedEvent]] = {}
    for admitted in outcome.open_events:
        by_key.setdefault(admitted.event.key, []).append(admitted)
    return [stretch.events[-1] for events in by_key.values() for stretch in cut(events)]


def events_of(events: Iterable[Event]) -> Counter[Row]:
    return Counter(map(event_row_of, events))


@settings(max_examples=150, deadline=None)
@any_changing_log
def test_a_spec_may_change_between_any_two_batches(changing: ChangingLog, key_groups: int, emit_every_ms: int) -> None:
    assert_as_the_oracle_of_changes(changing, key_groups, emit_every_ms)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=5_000, deadline=None)
@any_changing_log
def test_the_specs_of_many_logs_may_change(changing: ChangingLog, key_groups: int, emit_every_ms: int) -> None:
    assert_as_the_oracle_of_changes(changing, key_groups, emit_every_ms)


def assert_as_the_oracle_of_changes(changing: ChangingLog, key_groups: int, emit_every_ms: int) -> None:
    """Each event keeps what it came with; only which columns a session shows depends on when it is emitted."""
    log = changing.log
    expected = sessionize(log.batches, log.rules)
    groups = InMemoryGroups(replace(log.rules, emit_every_ms=emit_every_ms), key_groups)
    for batch, payload in zip(log.batches, changing.payloads, strict=True):
        groups.take(batch, list(payload))
    sessions, open_events = groups.settle()
    closed = [row_of(session, groups.shown_by.get(row_of(session)[:-1])) for session in expected.closed]
    assert Counter(sessions) == Counter(closed)
    assert open_events == events_of(admitted.event for admitted in expected.open_events)
    assert groups.late == events_of(expected.late)
    assert groups.conflicting == events_of(expected.conflicting)
    assert groups.repeated == expected.duplicates_dropped
