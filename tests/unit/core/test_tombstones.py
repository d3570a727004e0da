"""Tombstones in a group's log: merges that keep the log, and the events left in it."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.rules import Clock, SessionRules
from sessionizer.core.key_group.merging import TABLES_BEFORE_REWRITE, merge
from sessionizer.core.wire.codec import (
    continues,
    decode,
    decode_log,
    drop_deleted,
    encode,
    find_appended_tables,
    mark_admitted,
    mark_continued,
    split_log,
    tombstones,
)
from support.streams.in_memory_groups import PAYLOAD, InMemoryGroups, event_rows, event_table

RULES = SessionRules(
    clock=Clock.EVENT_TIME,
    watermark_delay_ms=5,
    gap_timeout_ms=100,
    client_timeouts_ms={},
    max_events=None,
    max_duration_ms=None,
    emit_every_ms=10,
)


def click(number: int, at_ms: int, key: str | None = None) -> Event:
    return Event(
        key=key or f"user {number}", client=None, event_time_ms=at_ms, event_id=f"e{number}", payload=("look", number)
    )


def table(*events: Event, late_before_ms: int = 5) -> pa.Table:
    admitted = event_table(events, RULES, 0)
    timeout = admitted.schema.get_field_index("timeout_ms")
    in_force = pa.array([RULES.gap_timeout_ms] * len(events), pa.int64())
    return mark_admitted(admitted.set_column(timeout, "timeout_ms", in_force), late_before_ms, RULES.caps)


def ids(log: list[pa.Table]) -> list[list[str]]:
    return [each.column("event_id").to_pylist() for each in log]


def deleting(*deleted: int, of: int) -> pa.Table:
    return tombstones(pa.array([row in deleted for row in range(of)]).to_numpy(zero_copy_only=False))


def test_the_newest_tombstones_count_and_later_tables_are_open() -> None:
    log = [table(click(1, 10), click(2, 20)), deleting(0, of=2), table(click(3, 30)), deleting(0, 2, of=3)]
    assert ids(decode_log(map(encode, log))) == [["e2"]]
    assert ids(drop_deleted([*log, table(click(4, 40))])) == [["e2"], ["e4"]]
    assert split_log(log).deleted.tolist() == [True, False, True]
    assert find_appended_tables(log) == []
    assert ids(list(find_appended_tables([*log, table(click(4, 40))]))) == [["e4"]]


def test_a_log_without_tombstones_is_as_it_was() -> None:
    log = [table(click(1, 10)), table(click(2, 20))]
    assert drop_deleted(log) == log
    assert find_appended_tables(log) == log
    assert drop_deleted([]) == []


def test_pieces_of_a_batch_stay_together_and_join_no_other() -> None:
    batches = [table(click(1, 10)), table(click(2, 20)), *(mark_continued(table(click(n, 30))) for n in (3, 4))]
    found = drop_deleted([*batches, deleting(1, of=4)])
    assert ids(found) == [["e1"], ["e3"], ["e4"]]
    assert [continues(each) for each in found] == [False, False, True]


@pytest.mark.parametrize(("finished", "kept"), [(0, True), (33, True), (34, False), (100, False)])
def test_a_log_is_kept_until_a_third_is_deleted(finished: int, kept: bool) -> None:
    log = [table(*(click(number, 10 if number < finished else 1_000) for number in range(100)))]
    merged = merge(log, 500, RULES, PAYLOAD, keeps_log=True)
    assert (merged.tombstones is not None) == kept
    assert merged.open.sessions == 100 - finished
    anew = merge(log, 500, RULES, PAYLOAD)
    left = drop_deleted([*log, merged.tombstones]) if merged.tombstones is not None else merged.open_events
    assert sum(map(event_rows, left), Counter()) == sum(map(event_rows, anew.open_events), Counter())
    assert merged.sessions == anew.sessions


def test_a_log_of_many_tables_is_written_anew() -> None:
    log = [table(click(number, 1_000)) for number in range(TABLES_BEFORE_REWRITE)]
    assert merge(log[1:], 500, RULES, PAYLOAD, keeps_log=True).tombstones is not None
    assert merge(log, 500, RULES, PAYLOAD, keeps_log=True).tombstones is None


def test_an_event_is_not_written_in_every_merge_that_it_stays_open() -> None:
    """The log only grows by new events and tombstones while two of a hundred users leave in each batch."""
    groups = InMemoryGroups(RULES, key_groups=1)
    (group,) = groups.groups
    groups.take(Batch(tuple(click(number, 10 + number) for number in range(100)), arrived_at_ms=1_000))
    first = group.log[0]
    for step in range(1, 17):
        groups.take(Batch((click(100 + step, 110 + 2 * step, "newcomer"),), arrived_at_ms=1_000 + step))
    assert group.log[0] == first
    assert sum(decode(blob).column_names == ["deleted"] for blob in group.log) > 1
    assert groups.sessions
