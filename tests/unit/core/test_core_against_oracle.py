"""The Arrow core equals the oracle, whatever comes and however a group's state was appended to and merged."""

import uuid
from collections import Counter
from dataclasses import replace
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.definition.event import AdmittedEvent, Batch, Event
from sessionizer.core.definition.oracle import cut, sessionize
from sessionizer.core.definition.outcome import Outcome
from sessionizer.core.definition.rules import NEVER_MS, Caps, Clock, SessionRules
from sessionizer.core.key_group import merging
from sessionizer.core.key_group.append_or_merge import admit
from sessionizer.core.key_group.group_load import latest
from sessionizer.core.key_group.merging import TABLES_BEFORE_REWRITE, Merged, merge
from sessionizer.core.key_group.repeated_events import surely_distinct
from sessionizer.core.wire import codec as wide
from sessionizer.core.wire import schema
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
from support.streams.drawn_logs import draw
from support.streams.in_memory_groups import (
    PAYLOAD,
    InMemoryGroups,
    event_rows,
    event_rows_of,
    event_table,
    row_of,
)
from support.streams.strategies import ChangingLog, Log, changing_logs, delayed, given_few_or_many, lags_ms, logs

MODES: dict[str, tuple[tuple[ModuleType, str, int], ...]] = {
    "as it is": (),
    # each merge has wide offsets, and whatever leaves it leaves in pieces of an event or two
    "large groups": ((wide, "WIDE_FROM_BYTES", 0), (wide, "PIECE_BYTES", 100)),
    # each merge only adds tombstones, as long as anything is open
    "no log is written anew": ((merging, "DELETED_BEFORE_REWRITE", 1), (merging, "TABLES_BEFORE_REWRITE", NEVER_MS)),
}


@given_few_or_many(
    120,
    10_000,
    log=logs(),
    key_groups=st.integers(1, 3),
    emit_every_ms=st.sampled_from([0, 7, 30]),
    behind_ms=lags_ms(),
    mode=st.sampled_from(list(MODES)),
)
def test_closed_open_late_and_conflicting_equal_the_oracle(
    log: Log, key_groups: int, emit_every_ms: int, behind_ms: int, mode: str
) -> None:
    log = delayed(log, behind_ms)
    expected = sessionize(log.batches, log.rules)
    groups = InMemoryGroups(replace(log.rules, emit_every_ms=emit_every_ms), key_groups)
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in MODES[mode]:
            patch.setattr(module, name, value)
        for batch in log.batches:
            groups.take(batch)
        emitted = Counter(groups.sessions)
        sessions, open_events = groups.settle()
    assert not emitted - Counter(map(row_of, expected.closed)), "emitted before it was final"
    assert Counter(sessions) == Counter(map(row_of, expected.closed))
    assert open_events == event_rows_of(admitted.event for admitted in expected.open_events)
    assert groups.late == event_rows_of(expected.late)
    assert groups.conflicting == event_rows_of(expected.conflicting)
    assert groups.repeated == expected.duplicates_dropped


@settings(max_examples=60)
@given(log=logs(drained=True), key_groups=st.integers(1, 3), behind_ms=lags_ms())
def test_a_drain_leaves_nothing_to_settle(log: Log, key_groups: int, behind_ms: int) -> None:
    log = delayed(log, behind_ms)
    groups = InMemoryGroups(replace(log.rules, emit_every_ms=30), key_groups)
    for batch in log.batches:
        groups.take(batch)
    outcome: Outcome = sessionize(log.batches, log.rules)
    assert Counter(groups.sessions) == Counter(map(row_of, outcome.closed))
    assert all(not group.log for group in groups.groups)


@settings(max_examples=60)
@given(log=logs([Clock.EVENT_TIME]), key_groups=st.integers(1, 3), emit_every_ms=st.sampled_from([0, 7, 30]))
def test_a_floor_where_the_last_open_session_is_over_closes_all_that_ever_close(
    log: Log, key_groups: int, emit_every_ms: int
) -> None:
    """So a quiet source needs no higher one. What groups say is open is never less than what is.

    Without caps: a group looks for those when the gap of one of its events is over.
    """
    log = replace(log, rules=replace(log.rules, caps=Caps()))
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


@given_few_or_many(
    60, 5_000, changing=changing_logs(), key_groups=st.integers(1, 3), emit_every_ms=st.sampled_from([0, 7, 30])
)
def test_a_spec_may_change_between_any_two_batches(changing: ChangingLog, key_groups: int, emit_every_ms: int) -> None:
    """Each event keeps what it came with; only which columns a session shows depends on when it is emitted."""
    log = changing.log
    expected = sessionize(log.batches, log.rules)
    groups = InMemoryGroups(replace(log.rules, emit_every_ms=emit_every_ms), key_groups)
    for batch, payload in zip(log.batches, changing.payloads, strict=True):
        groups.take(batch, list(payload))
    sessions, open_events = groups.settle()
    closed = [row_of(session, groups.shown_by.get(row_of(session)[:-1])) for session in expected.closed]
    assert Counter(sessions) == Counter(closed)
    assert open_events == event_rows_of(admitted.event for admitted in expected.open_events)
    assert groups.late == event_rows_of(expected.late)
    assert groups.conflicting == event_rows_of(expected.conflicting)
    assert groups.repeated == expected.duplicates_dropped


KINDS = ["a"] * 30 + ["b"] * 20 + ["c"]
COMMITS = [f"{number:040x}" for number in range(200)]


def test_each_kind_is_drawn_whatever_the_commit() -> None:
    for commit in COMMITS:
        drawn = draw(KINDS, 16, commit)
        assert len(set(drawn)) == 16
        assert {KINDS[number] for number in drawn} == {"a", "b", "c"}


def test_a_commit_draws_the_same_again_and_many_commits_draw_all() -> None:
    assert draw(KINDS, 16, COMMITS[0]) == draw(KINDS, 16, COMMITS[0])
    assert {number for commit in COMMITS for number in draw(KINDS, 16, commit)} == set(range(len(KINDS)))


RULES = SessionRules(Clock.EVENT_TIME, 0, 1_000, {})
BEYOND_US = 9 * 10**18
NAN = float("nan")
VALUES = {
    "an instant in the year 287000": pa.array([BEYOND_US, BEYOND_US + 1]).cast(pa.timestamp("us", "UTC")),
    "NaN": pa.array([NAN, 1.0]),
    "NaN in a list": pa.array([[NAN], [NAN, NAN]]),
    "a map": pa.array([[("k", NAN)], [("k", None)]], pa.map_(pa.string(), pa.float64())),
    "bytes": pa.array([b"\xff", b"\xff\x00"]),
}


def merged(values: pa.Array, batches: list[list[int]]) -> Merged:
    payload = [pa.field("value", values.type)]
    log = []
    for taken in batches:
        events = pa.table(
            {
                schema.KEY: ["ann"] * len(taken),
                schema.CLIENT: pa.nulls(len(taken), pa.string()),
                schema.CLOCK: [100] * len(taken),
                schema.EVENT_ID: ["a"] * len(taken),
                schema.CLOSES: [False] * len(taken),
                schema.TIMEOUT: pa.nulls(len(taken), pa.int64()),
                "payload_value": values.take(pa.array(taken)),
            },
            schema=schema.event_schema(payload, Clock.EVENT_TIME),
        )
        log.append(admit(events, 0, RULES, {}).admitted)
    return merge(log, 0, RULES, payload)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize(
    ("batches", "repeated", "conflicting"),
    [([[0, 0]], 1, 0), ([[0], [0]], 1, 0), ([[0, 1]], 0, 1), ([[0], [1]], 0, 1), ([[0, 0], [1, 0], [1]], 2, 2)],
)
def test_what_repeats_and_what_conflicts_is_told_of_any_type(
    kind: str, batches: list[list[int]], repeated: int, conflicting: int
) -> None:
    outcome = merged(VALUES[kind], batches)
    refused = 0 if outcome.conflicting is None else outcome.conflicting.num_rows
    assert (outcome.repeated, refused) == (repeated, conflicting)
    (left,) = outcome.open_events
    assert left.num_rows == 1


# The proof that no id repeats is never wrong, and is found where it matters

texts = st.lists(st.text(alphabet="aé0", min_size=0, max_size=12), max_size=20)
of_one_length = st.lists(st.text(alphabet="ab", min_size=9, max_size=9), max_size=20)


@given(st.one_of(texts, of_one_length), st.integers(0, 3))
def test_what_repeats_is_never_called_distinct(values: list[str], skipped: int) -> None:
    column = pa.array(values, pa.string()).slice(skipped)
    if surely_distinct(column):
        assert len(set(column.to_pylist())) == len(column)


@pytest.mark.parametrize("width", [8, 9, 16, 32, 36])
def test_ids_of_one_length_are_proven_distinct_until_one_repeats(width: int) -> None:
    ids = [str(uuid.UUID(int=number * 2**64 + number)).rjust(40, "0")[-width:] for number in range(10_000)]
    column = pa.array(ids, pa.string())
    assert surely_distinct(column)
    assert surely_distinct(column.slice(4_000, 5_000))
    assert not surely_distinct(pa.array([*ids, ids[17]], pa.string()))


@pytest.mark.parametrize("values", [[], ["a"], ["same length"]])
def test_less_than_two_are_distinct(values: list[str]) -> None:
    assert surely_distinct(pa.array(values, pa.string()))


@pytest.mark.parametrize("values", [["short", "other"], ["of this length", "of another"]])
def test_short_strings_and_strings_of_several_lengths_are_not_judged(values: list[str]) -> None:
    assert not surely_distinct(pa.array(values, pa.string()))


RULES_OF_TOMBSTONES = SessionRules(
    clock=Clock.EVENT_TIME,
    watermark_delay_ms=5,
    gap_timeout_ms=100,
    client_timeouts_ms={},
    emit_every_ms=10,
)


def click(number: int, at_ms: int, key: str | None = None) -> Event:
    return Event(
        key=key or f"user {number}", client=None, event_time_ms=at_ms, event_id=f"e{number}", payload=("look", number)
    )


def table(*events: Event, late_before_ms: int = 5) -> pa.Table:
    admitted = event_table(events, RULES_OF_TOMBSTONES, 0)
    timeout = admitted.schema.get_field_index("timeout_ms")
    in_force = pa.array([RULES_OF_TOMBSTONES.gap_timeout_ms] * len(events), pa.int64())
    return mark_admitted(admitted.set_column(timeout, "timeout_ms", in_force), late_before_ms, RULES_OF_TOMBSTONES.caps)


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
    merged = merge(log, 500, RULES_OF_TOMBSTONES, PAYLOAD, keeps_log=True)
    assert (merged.tombstones is not None) == kept
    assert merged.open.sessions == 100 - finished
    anew = merge(log, 500, RULES_OF_TOMBSTONES, PAYLOAD)
    left = drop_deleted([*log, merged.tombstones]) if merged.tombstones is not None else merged.open_events
    assert sum(map(event_rows, left), Counter()) == sum(map(event_rows, anew.open_events), Counter())
    assert merged.sessions == anew.sessions


def test_a_log_of_many_tables_is_written_anew() -> None:
    log = [table(click(number, 1_000)) for number in range(TABLES_BEFORE_REWRITE)]
    assert merge(log[1:], 500, RULES_OF_TOMBSTONES, PAYLOAD, keeps_log=True).tombstones is not None
    assert merge(log, 500, RULES_OF_TOMBSTONES, PAYLOAD, keeps_log=True).tombstones is None


def test_an_event_is_not_written_in_every_merge_that_it_stays_open() -> None:
    """The log only grows by new events and tombstones while two of a hundred users leave in each batch."""
    groups = InMemoryGroups(RULES_OF_TOMBSTONES, key_groups=1)
    (group,) = groups.groups
    groups.take(Batch(tuple(click(number, 10 + number) for number in range(100)), arrived_at_ms=1_000))
    first = group.log[0]
    for step in range(1, 17):
        groups.take(Batch((click(100 + step, 110 + 2 * step, "newcomer"),), arrived_at_ms=1_000 + step))
    assert group.log[0] == first
    assert sum(decode(blob).column_names == ["deleted"] for blob in group.log) > 1
    assert groups.sessions
