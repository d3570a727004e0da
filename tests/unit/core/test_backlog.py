"""When a group merges: in a backlog in every second batch, and what is final never waits for longer than that."""

from collections import Counter, UserDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.rules import NEVER_MS, Clock, IdleClock, SessionRules
from sessionizer.core.key_group.append_or_merge import (
    Arrivals,
    BatchBounds,
    GroupRules,
    MergeSchedule,
    admit,
    take_batch,
)
from sessionizer.core.key_group.cutting import keep_timeouts, read_kept_timeouts
from sessionizer.core.wire import schema
from sessionizer.core.wire.alignment import Unfit, align_table, align_values, unfit, unite_schemas
from support.expected.worked_examples import owed_by_batch
from support.streams.in_memory_groups import PAYLOAD, InMemoryGroups, event_table, row_of
from support.streams.strategies import Log, delayed, drain_at, given_few_or_many, logs

STEP_MS = 30
DELAY_MS = 10
BEHIND_MS = 100_000
RULES = SessionRules(
    clock=Clock.EVENT_TIME,
    watermark_delay_ms=DELAY_MS,
    gap_timeout_ms=5,
    client_timeouts_ms={},
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


SEVEN = [batch_until(1_000 * number) for number in range(1, 8)]


@pytest.mark.parametrize(
    ("batches", "emitted"),
    [
        pytest.param(SEVEN, [0, 1, 0, 4, 0, 4, 0], id="in a backlog every second batch merges"),
        pytest.param(
            [*SEVEN[:3], Batch((), arrived_at_ms=3_001 + BEHIND_MS)],
            [0, 1, 0, 4],
            id="the batch after a backlog brings what waited, also without new data",
        ),
        pytest.param(
            [replace(batch, arrived_at_ms=batch.arrived_at_ms - BEHIND_MS + 900) for batch in SEVEN],
            [0, 1, 2, 2, 2, 2, 2],
            id="a stream that keeps up merges in every batch",
        ),
        pytest.param([*SEVEN[:3], drain_at(3_001)], [0, 1, 0, 5], id="a drain after a backlog leaves nothing"),
    ],
)
def test_a_group_merges_in_every_second_batch_of_a_backlog(batches: list[Batch], emitted: list[int]) -> None:
    assert emitted_per_batch(RULES, *batches) == emitted


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


@given_few_or_many(
    100, 500, log=logs([Clock.EVENT_TIME]), key_groups=st.integers(1, 3), emit_every_ms=st.sampled_from([1, 7, STEP_MS])
)
def test_what_was_final_a_step_before_the_batch_before_is_out(log: Log, key_groups: int, emit_every_ms: int) -> None:
    rules = replace(log.rules, emit_every_ms=emit_every_ms)
    log = delayed(log, BEHIND_MS)
    groups = InMemoryGroups(rules, key_groups)
    for batch, owed in zip(log.batches, owed_by_batch(log.batches, rules), strict=True):
        groups.take(batch)
        assert not Counter(map(row_of, owed)) - Counter(groups.sessions)


BEGAN = 10_000
DUE = 100_000


@pytest.fixture
def clock() -> IdleClock:
    """Quiet for two seconds, then a punctuation a second at most."""
    clock = IdleClock(idle_after_ms=2_000, every_ms=1_000)
    clock.saw_events(BEGAN)
    return clock


def said(clock: IdleClock, after_ms: int, watermark_ms: int = 500, latest_due_ms: int = DUE) -> int | None:
    clock.look(BEGAN + after_ms)
    return clock.floor(BEGAN + after_ms, watermark_ms, latest_due_ms=latest_due_ms, caught_up=True)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param([((1_999,), None)], id="nothing is said before it has been quiet for long enough"),
        pytest.param(
            [((2_000,), 2_500), ((3_000, 2_500), 3_500), ((12_000, 3_500), 12_500)],
            id="event time goes on with the wall clock, and a watermark that followed changes nothing",
        ),
        pytest.param(
            [((2_000,), 2_500), ((2_999,), None), ((3_000,), 3_500)], id="it is not said more often than asked for"
        ),
        pytest.param(
            [((2_000, 500), 2_500), ((3_000, 40_000), 43_000), ((4_000, 43_000), 44_000)],
            id="it goes on from a watermark that the last events moved late",
        ),
        pytest.param(
            [((2_000, 500, 3_000), 2_500), ((3_000, 2_500, 3_000), 3_000), ((4_000, 3_000, 3_000), None)],
            id="nothing is said beyond the end of the last open session",
        ),
    ],
)
def test_a_quiet_source_moves_the_watermark(clock: IdleClock, asked: list[tuple[tuple[int, ...], int | None]]) -> None:
    assert [said(clock, *question) for question, _ in asked] == [answer for _, answer in asked]


def test_events_end_the_quiet(clock: IdleClock) -> None:
    assert said(clock, 2_000) == 2_500
    clock.saw_events(BEGAN + 2_500)
    assert (said(clock, 4_400, 900), said(clock, 4_500, 900)) == (None, 2_900)


def test_a_driver_that_was_stopped_for_an_hour_does_not_take_it_for_quiet(clock: IdleClock) -> None:
    assert said(clock, 2_000) == 2_500
    hour = 3_600_000
    assert said(clock, 2_000 + hour) == 2_500
    assert (said(clock, 2_900 + hour), said(clock, 3_500 + hour)) == (None, 4_000)
    clock.saw_events(BEGAN + 3_600 + hour)  # by a batch of which it learns after the next stop
    assert [said(clock, after + 2 * hour) for after in (0, 1_999, 2_000)] == [None, None, 2_500]


def test_time_in_which_a_store_was_slow_to_take_a_floor_is_quiet(clock: IdleClock) -> None:
    assert said(clock, 2_000) == 2_500
    for after in range(3_000, 60_000, 1_000):  # the driver looks, and asks for no floor meanwhile
        clock.look(BEGAN + after)
    assert said(clock, 60_000) == 60_500


def test_a_clock_that_saw_no_events_counts_from_when_it_was_first_asked() -> None:
    clock = IdleClock(idle_after_ms=2_000, every_ms=1_000)
    assert (said(clock, 0), said(clock, 2_000)) == (None, 2_500)


@pytest.mark.parametrize(
    ("watermark_ms", "latest_due_ms", "caught_up"),
    [(None, DUE, True), (500, None, True), (500, 500, True), (500, DUE, False)],
)
def test_there_must_be_something_to_close_and_nothing_to_read(
    clock: IdleClock, watermark_ms: int | None, latest_due_ms: int | None, caught_up: bool
) -> None:
    assert clock.floor(BEGAN + 9_000, watermark_ms, latest_due_ms=latest_due_ms, caught_up=caught_up) is None


RULES_OF_KEPT_TIMEOUTS = SessionRules(
    clock=Clock.EVENT_TIME,
    watermark_delay_ms=0,
    gap_timeout_ms=5,
    client_timeouts_ms={"acme": 7, "globex": 8},
)
CLIENTS = ["acme", "globex", "initech", None, "acme", "hooli"]


@given(st.dictionaries(st.text(), st.integers(1, NEVER_MS)))
def test_what_was_kept_is_had_again(timeouts: dict[str, int]) -> None:
    kept = keep_timeouts(timeouts)
    assert read_kept_timeouts(kept.fingerprint, lambda: kept.blob) == timeouts
    assert keep_timeouts(dict(reversed(timeouts.items()))) == kept


def test_other_timeouts_have_another_fingerprint() -> None:
    tables = [{}, {"acme": 1}, {"acme": 2}, {"acm": 1}, {"acme": 1, "globex": 2}, {"acme": 2, "globex": 1}]
    assert len({keep_timeouts(timeouts).fingerprint for timeouts in tables}) == len(tables)


def test_groups_that_keep_the_same_read_and_open_it_once() -> None:
    kept = keep_timeouts({f"client-{number}": number + 1 for number in range(1_000)})
    read: list[int] = []

    def reader(group: int) -> Callable[[], bytes]:
        return lambda: read.append(group) or kept.blob  # type: ignore[func-returns-value]

    first, second = (read_kept_timeouts(bytes(bytearray(kept.fingerprint)), reader(group)) for group in (1, 2))
    assert first is second
    assert read == [1]


def test_what_was_not_asked_for_in_a_long_time_is_forgotten() -> None:
    kept = [keep_timeouts({"acme": number}) for number in range(1, 21)]
    read: list[int] = []

    def ask(number: int) -> Mapping[str, int]:
        return read_kept_timeouts(kept[number].fingerprint, lambda: read.append(number) or kept[number].blob)  # type: ignore[func-returns-value]

    for number in (*range(20), 0, 19):
        assert ask(number) == {"acme": number + 1}
    assert read == [*range(20), 0]


class Counted(UserDict[str, int]):
    """Notes the clients that are asked for."""

    def __init__(self, known: dict[str, int]) -> None:
        super().__init__(known)
        self.asked: list[str] = []

    def __contains__(self, key: object) -> bool:
        self.asked.append(str(key))
        return super().__contains__(key)

    def __iter__(self) -> object:  # type: ignore[override]
        raise AssertionError


def test_of_many_clients_with_a_timeout_only_those_that_came_are_looked_up() -> None:
    changes = Counted({f"client-{number}": 1 for number in range(100_000)} | {"acme": 70, "hooli": 90})
    shown = schema.event_schema([], RULES_OF_KEPT_TIMEOUTS.clock)
    row = {"key": "k", "event_id": "e", schema.CLOSES: False, schema.TIMEOUT: None}
    events = [row | {schema.CLIENT: client, schema.CLOCK: at + 1} for at, client in enumerate(CLIENTS)]
    table = pa.Table.from_pylist([{name: event.get(name) for name in shown.names} for event in events], shown)
    admitted = admit(table, 0, RULES_OF_KEPT_TIMEOUTS, changes).admitted
    assert admitted.column(schema.TIMEOUT).to_pylist() == [70, 8, 5, 5, 70, 90]
    assert sorted(changes.asked) == ["acme", "globex", "hooli", "initech"]


INNER = pa.struct([("x", pa.int32()), ("m", pa.map_(pa.string(), pa.int8()))])
OUTER = pa.list_(INNER)
LATER = pa.list_(pa.struct([("n", pa.string()), ("m", pa.map_(pa.string(), pa.int64())), ("x", pa.int64())]))
VALUES = [[{"x": 1, "m": [("k", 1)]}], None, [], [None, {"x": 2, "m": None}]]
ALIGNED = [[{"n": None, "m": [("k", 1)], "x": 1}], None, [], [None, {"n": None, "m": None, "x": 2}]]

WIDER = [
    (pa.int8(), pa.int16()),
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(5, 2), pa.decimal128(7, 4)),
    (OUTER, LATER),
]
NEVER = [
    (pa.int64(), pa.float64()),
    (pa.int32(), pa.float32()),
    (pa.string(), pa.binary()),
    (pa.date32(), pa.timestamp("us", tz="UTC")),
    (pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
    (pa.decimal128(5, 2), pa.decimal128(6, 4)),
    (pa.bool_(), pa.int64()),
    (pa.list_(pa.int32()), pa.map_(pa.int32(), pa.int32())),
]


@pytest.mark.parametrize(("narrow", "wide"), WIDER)
def test_a_type_goes_into_a_wider_one_only(narrow: pa.DataType, wide: pa.DataType) -> None:
    assert unfit(narrow, wide) is None
    assert unfit(wide, narrow) is not None


@pytest.mark.parametrize(("one", "other"), NEVER)
def test_some_types_have_nothing_in_common(one: pa.DataType, other: pa.DataType) -> None:
    assert unfit(one, other) == Unfit((), one, other)
    assert unfit(other, one) == Unfit((), other, one)
    with pytest.raises(pa.ArrowTypeError):
        unite_schemas(pa.schema([("a", one)]), pa.schema([("a", other)]))


def test_what_does_not_fit_is_told_with_its_place() -> None:
    assert unfit(LATER, OUTER) == Unfit(("element", "m", "value"), pa.int64(), pa.int8())


@pytest.mark.parametrize("part", [slice(0, 4), slice(1, 4), slice(3, 4), slice(2, 2)])
def test_fields_are_found_by_name_at_any_depth(part: slice) -> None:
    values = pa.array(VALUES, OUTER)[part.start : part.stop]
    found = align_values(values, LATER)
    found.validate(full=True)
    assert found.to_pylist() == ALIGNED[part]


def test_a_table_gets_missing_columns_and_loses_others_and_keeps_its_stamp() -> None:
    table = pa.table({"a": pa.array([1, None], pa.int8()), "gone": ["x", "y"]}).replace_schema_metadata({"k": "v"})
    found = align_table(table, pa.schema([("new", OUTER), ("a", pa.int64())]))
    assert found.to_pylist() == [{"new": None, "a": 1}, {"new": None, "a": None}]
    assert found.schema.metadata == {b"k": b"v"}


def test_both_schemas_go_into_the_one_of_both() -> None:
    one = pa.schema([("a", pa.int8()), ("at", pa.struct([("x", pa.int64())])), ("old", pa.string())])
    other = pa.schema([("at", pa.struct([("y", pa.string()), ("x", pa.int8())])), ("a", pa.int32()), ("new", OUTER)])
    both = unite_schemas(one, other)
    assert both.names == ["a", "at", "old", "new"]
    assert both.field("a").type == pa.int32()
    assert both.field("at").type == pa.struct([("x", pa.int64()), ("y", pa.string())])
    for part in (one, other):
        assert all(unfit(field.type, both.field(field.name).type) is None for field in part)
