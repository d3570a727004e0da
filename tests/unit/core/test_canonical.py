"""Open events as typed rows and back: a group that gets its log in this way goes on as if nothing had happened."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.definition.event import AdmittedEvent, Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import Caps, Clock, SessionRules
from sessionizer.core.key_group.merging import Merged, merge
from sessionizer.core.key_group.table_rows import decide_rows
from sessionizer.core.wire import codec as wide
from sessionizer.core.wire import schema
from sessionizer.core.wire.alignment import unite_schemas
from sessionizer.core.wire.canonical import (
    ADMISSION,
    ADMISSION_TYPE,
    KEY_GROUP,
    canonical_schema,
    code_admissions,
    coded_schema,
    comes_back,
    decode_admissions,
    log_of,
    read_typed_rows,
)
from sessionizer.core.wire.codec import (
    continues,
    decode,
    encode,
    mark_admitted,
    read_admission_caps,
    read_admission_threshold,
)
from support.streams.in_memory_groups import PAYLOAD, InMemoryGroups, event_rows, event_rows_of, row_of, session_rows
from support.streams.strategies import ChangingLog, Log, changing_logs, given_few_or_many, logs

CAPS = Caps(max_events=3)
FEWER_CAPS = pa.field("caps", pa.struct([pa.field("max_events", pa.int64())]))
SMALL = schema.event_schema([pa.field("amount", pa.int32())], Clock.EVENT_TIME)


def what_it_comes_to(merged: Merged) -> tuple[Any, ...]:
    """A merge as values: the tables of what stays open by the terms that they keep."""
    stays = Counter[tuple[Any, ...]]()
    for table in merged.open_events:
        terms = (frozenset(table.column_names), read_admission_caps(table), read_admission_threshold(table))
        stays += Counter({(terms, event): count for event, count in event_rows(table).items()})
    numbers = (merged.repeated, merged.open)
    return (Counter(session_rows(merged.sessions)), stays, event_rows(merged.conflicting), numbers)


def until(changing: ChangingLog, batches: int, key_groups: int) -> InMemoryGroups:
    groups = InMemoryGroups(replace(changing.log.rules, emit_every_ms=30), key_groups)
    take(groups, changing, slice(0, batches))
    return groups


def take(groups: InMemoryGroups, changing: ChangingLog, which: slice) -> None:
    for batch, payload in zip(changing.log.batches[which], changing.payloads[which], strict=True):
        groups.take(batch, list(payload))


def stored(log: Sequence[pa.Table]) -> list[pa.Table]:
    return [decode(encode(table.combine_chunks())) for table in log]


def disordered(rows: pa.Table, chance: random.Random) -> pa.Table:
    """As rows come out of a shuffle: in any order, in several chunks."""
    order = pa.array(chance.sample(range(rows.num_rows), rows.num_rows), pa.int64())
    cut = chance.randint(0, rows.num_rows)
    return pa.concat_tables([rows.take(order.slice(0, cut)), rows.take(order.slice(cut))])


@settings(max_examples=50)
@given(changing=changing_logs(), share=st.floats(0, 1), key_groups=st.integers(1, 3), seed=st.integers())
def test_a_log_that_was_rows_comes_to_the_same(changing: ChangingLog, share: float, key_groups: int, seed: int) -> None:
    groups = until(changing, round(share * len(changing.log.batches)), key_groups)
    for number, group in enumerate(groups.groups):
        if not group.log:
            continue
        rows = read_typed_rows(group.read(), number)
        mixed = disordered(rows, random.Random(seed))
        again = log_of(mixed)
        assert comes_back(mixed, stored(again))
        terms = (groups.shared.rules, groups.shared.payload)
        for final_by in (0, groups.final_by, groups.final_by + 30):
            merged, expected = (merge(log, final_by, *terms) for log in (again, group.read()))
            assert what_it_comes_to(merged) == what_it_comes_to(expected)


@given_few_or_many(
    50,
    500,
    changing=changing_logs(),
    share=st.floats(0, 1),
    before=st.integers(1, 3),
    after=st.integers(1, 4),
    seed=st.integers(),
)
def test_a_stream_may_go_on_in_other_groups_after_any_batch(
    changing: ChangingLog, share: float, before: int, after: int, seed: int
) -> None:
    cut = round(share * len(changing.log.batches))
    old = until(changing, cut, before)
    new = in_other_groups(old, after, random.Random(seed))
    take(new, changing, slice(cut, None))
    sessions, open_events = new.settle()
    expected = sessionize(changing.log.batches, changing.log.rules)
    shown_by = {**old.shown_by, **new.shown_by}
    closed = [row_of(session, shown_by.get(row_of(session)[:-1])) for session in expected.closed]
    assert Counter(old.sessions + sessions) == Counter(closed)
    assert open_events == event_rows_of(admitted.event for admitted in expected.open_events)
    assert old.late + new.late == event_rows_of(expected.late)
    assert old.conflicting + new.conflicting == event_rows_of(expected.conflicting)
    assert old.repeated + new.repeated == expected.duplicates_dropped


def in_other_groups(old: InMemoryGroups, key_groups: int, chance: random.Random) -> InMemoryGroups:
    new = old.fresh(key_groups)
    logs = [group.read() for group in old.groups]
    tables = [table.schema.remove_metadata() for log in logs for table in log]
    columns = reduce(unite_schemas, tables, schema.event_schema(old.shared.payload, old.shared.rules.clock))
    rows = disordered(pa.concat_tables([read_typed_rows(log, of, columns) for of, log in enumerate(logs)]), chance)
    new.begin_with(rows)
    return new


def table_of(ids: list[str], columns: pa.Schema = SMALL) -> pa.Table:
    rows = [
        {
            schema.KEY: "ann", schema.CLIENT: None, schema.CLOCK: 10 + place, schema.EVENT_ID: name,
            schema.CLOSES: False, schema.TIMEOUT: 5, "payload_amount": place,
        }
        for place, name in enumerate(ids)
    ]  # fmt: skip
    return pa.Table.from_pylist([{name: row[name] for name in columns.names} for row in rows], columns)


def test_the_columns_of_the_rows() -> None:
    rows = read_typed_rows([mark_admitted(table_of(["a"]), 7, CAPS), mark_admitted(table_of(["b"]), 9, Caps())], 5)
    names = ["key", "client", "clock_ms", "event_id", "closes", "timeout_ms", "payload_amount", KEY_GROUP, ADMISSION]
    assert rows.schema.names == names
    assert rows.column(KEY_GROUP).to_pylist() == [5, 5]
    no_caps = {"max_events": None, "max_duration_ms": None, "max_bytes": None}
    assert rows.column(ADMISSION).to_pylist() == [
        {"turn": 1, "late_before_ms": 7, "caps": {**no_caps, "max_events": 3}, "columns": ["payload_amount"]},
        {"turn": 2, "late_before_ms": 9, "caps": no_caps, "columns": ["payload_amount"]},
    ]


def test_an_event_that_came_without_caps_or_a_column_returns_without() -> None:
    bare = SMALL.remove(SMALL.get_field_index("payload_amount"))
    log = [mark_admitted(table_of(["a"], bare), 7, None), mark_admitted(table_of(["b"]), 7, Caps())]
    first, second = log_of(read_typed_rows(log, 0))
    assert (read_admission_caps(first), first.column_names) == (None, bare.names)
    assert (read_admission_caps(second), second.column_names) == (Caps(), SMALL.names)


def test_rows_of_a_release_with_fewer_caps_are_read() -> None:
    log = [mark_admitted(table_of(["a"]), 7, CAPS), mark_admitted(table_of(["b"]), 7, None)]
    rows = read_typed_rows(log, 0)
    admissions = [
        each if each["caps"] is None else {**each, "caps": {"max_events": each["caps"]["max_events"]}}
        for each in rows.column(ADMISSION).to_pylist()
    ]
    fewer = pa.array(admissions, pa.struct([*[*ADMISSION_TYPE][:2], FEWER_CAPS, ADMISSION_TYPE.field("columns")]))
    earlier = rows.set_column(rows.schema.get_field_index(ADMISSION), ADMISSION, fewer)
    assert [read_admission_caps(table) for table in log_of(earlier)] == [CAPS, None]
    assert comes_back(earlier, stored(log_of(earlier)))


def test_admissions_pass_as_numbers_and_name_the_columns_that_an_event_has_then() -> None:
    bare = SMALL.remove(SMALL.get_field_index("payload_amount"))
    log = [mark_admitted(table_of(["a", "b"]), 7, CAPS), mark_admitted(table_of(["c"], bare), 7, None)]
    rows = read_typed_rows(log, 0)
    coded, texts = code_admissions(rows)
    assert coded.schema.equals(coded_schema(rows.schema))
    assert len(texts) == 2
    told = decode_admissions(coded, [*texts, *texts, json.dumps({"turn": 9, "late_before_ms": 0})])
    assert [len(table) for table in log_of(told)] == [2, 1]
    with pytest.raises(ValueError, match="1 of 3 events"):
        decode_admissions(coded, texts[:1])
    disordered = told.take(pa.array([2, 1, 0]))
    assert [read_admission_caps(table) for table in log_of(disordered)] == [CAPS, None]
    assert comes_back(disordered, stored(log_of(rows.take(pa.array([2, 1, 0])))))
    assert not comes_back(disordered, log)
    later = decode_admissions(*code_admissions(rows, lambda columns: [*columns, "payload_new"]))
    both = ["payload_amount", "payload_new"]
    found = [each["columns"] for each in map(json.loads, later.column(ADMISSION).to_pylist())]
    assert found == [both, both, ["payload_new"]]
    assert later.drop_columns([ADMISSION]).equals(rows.drop_columns([ADMISSION]))
    assert log_of(decode_admissions(*code_admissions(read_typed_rows([], 0, SMALL)))) == []


def test_a_log_that_lost_or_changed_a_row_does_not_come_back() -> None:
    log = [mark_admitted(table_of(["a", "b"]), 7, CAPS), mark_admitted(table_of(["c"]), 8, None)]
    rows = read_typed_rows(log, 0)
    assert comes_back(rows, stored(log_of(rows)))
    wrong = {
        "a row less": [log[0].slice(1), log[1]],
        "a row twice": [log[0], log[1], log[1]],
        "another value": [mark_admitted(table_of(["a", "x"]), 7, CAPS), log[1]],
        "another order": [mark_admitted(table_of(["b", "a"]), 7, CAPS), log[1]],
        "another threshold": [mark_admitted(log[0], 9, CAPS), log[1]],
        "other caps": [log[0], mark_admitted(log[1], 8, CAPS)],
        "a column less": [log[0].drop_columns(["payload_amount"]), log[1]],
    }
    assert [what for what, other in wrong.items() if comes_back(rows, other)] == []


def test_an_empty_log_has_no_rows() -> None:
    rows = read_typed_rows([], 0, SMALL)
    assert rows.schema.equals(canonical_schema(SMALL))
    assert log_of(rows) == []


@pytest.fixture
def blobs_are_small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wide, "WIDE_FROM_BYTES", 0)
        patch.setattr(wide, "PIECE_BYTES", 100)
        yield


@pytest.mark.usefixtures("blobs_are_small")
def test_the_pieces_of_one_batch_stay_one_batch() -> None:
    ids = [f"{number:03}" for number in range(40)]
    batches = (mark_admitted(table_of(ids), 7, CAPS), mark_admitted(table_of(["z"]), 8, CAPS))
    log = [piece for batch in batches for piece in wide.log_tables(batch)]
    again = log_of(read_typed_rows(log, 0))
    assert [continues(table) for table in again] == [False, *[True] * (len(log) - 2), False]
    assert [name for table in again for name in table.column(schema.EVENT_ID).to_pylist()] == [*ids, "z"]


@dataclass(frozen=True)
class DrawnMigration:
    """Events get one of few keys by their old key, or by their id as well. Some leave, some get another timeout."""

    seed: int
    keys: int
    splits: bool

    def draw(self, *parts: object) -> int:
        return crc32(repr((self.seed, *parts)).encode())

    def key(self, key: str, event_id: str) -> str:
        return f"m{self.draw(key, *([event_id] if self.splits else [])) % self.keys}"

    def stays(self, key: str, event_id: str) -> bool:
        return self.draw("stays", key, event_id) % 8 > 0

    def timeout(self, event_id: str, timeout_ms: int) -> int:
        return timeout_ms if self.draw("timeout", event_id) % 2 else 1 + self.draw(event_id) % 20

    def of_event(self, admitted: AdmittedEvent) -> AdmittedEvent | None:
        event = admitted.event
        if not self.stays(event.key, event.event_id):
            return None
        event = replace(event, key=self.key(event.key, event.event_id))
        return replace(admitted, event=event, timeout_ms=self.timeout(event.event_id, admitted.timeout_ms))

    def of_rows(self, rows: pa.Table) -> pa.Table:
        ids, keys, timeouts = (rows.column(name).to_pylist() for name in ("event_id", "key", "timeout_ms"))
        both = list(zip(keys, ids, strict=True))
        changed: Mapping[str, pa.Array] = {
            "key": pa.array([self.key(*each) for each in both], pa.string()),
            "timeout_ms": pa.array([self.timeout(*each) for each in zip(ids, timeouts, strict=True)], pa.int64()),
        }
        for name, values in changed.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, values)
        return rows.filter(pa.array([self.stays(*each) for each in both], pa.bool_()))


migrations = st.builds(DrawnMigration, st.integers(0, 2**16), st.integers(1, 4), st.booleans())


def stream_until(log: Log, cut: int, key_groups: int, emit_every_ms: int = 0) -> InMemoryGroups:
    groups = InMemoryGroups(replace(log.rules, emit_every_ms=emit_every_ms), key_groups)
    for batch in log.batches[:cut]:
        groups.take(batch)
    return groups


def migrated(old: InMemoryGroups, migration: DrawnMigration, key_groups: int) -> InMemoryGroups:
    """The stream in new groups, with what was decided before the migration in its results."""
    new = old.fresh(key_groups)
    events = schema.event_schema(old.shared.payload, old.shared.rules.clock)
    logs_of = ((number, group.read()) for number, group in enumerate(old.groups) if group.log)
    found = [decide_rows(log, number, old.shared, old.final_by, events) for number, log in logs_of]
    for each in found:
        new.repeated += each.merged.repeated
        new.conflicting += event_rows(each.merged.conflicting)
        new.sessions += session_rows(each.merged.sessions)
    rows = [canonical_schema(events).empty_table(), *(each.rows for each in found)]
    new.begin_with(migration.of_rows(pa.concat_tables(rows)))
    return new


@given_few_or_many(
    60,
    2_000,
    log=logs(),
    emit_every_ms=st.sampled_from([0, 30]),
    share=st.floats(0, 0.999),
    groups=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    how=migrations,
)
def test_a_stream_with_migrated_events_equals_the_definition(
    log: Log, emit_every_ms: int, share: float, groups: tuple[int, int], how: DrawnMigration
) -> None:
    cut = int(share * len(log.batches))
    old = stream_until(log, cut, groups[0], emit_every_ms)
    new = migrated(old, how, groups[1])
    for batch in log.batches[cut:]:
        new.take(batch)
    sessions, open_events = new.settle()
    batches = [*log.batches[:cut], replace(log.batches[cut], migrate=how.of_event), *log.batches[cut + 1 :]]
    expected = sessionize(batches, log.rules)
    assert Counter(old.sessions + sessions) == Counter(map(row_of, expected.closed))
    assert open_events == event_rows_of(admitted.event for admitted in expected.open_events)
    assert old.conflicting + new.conflicting == event_rows_of(expected.conflicting)
    assert old.repeated + new.repeated == expected.duplicates_dropped


RULES = SessionRules(Clock.EVENT_TIME, 0, 10, {})


def click(key: str, at_ms: int, event_id: str, amount: int = 1) -> Event:
    return Event(key, None, at_ms, event_id, payload=("click", amount))


def test_two_keys_that_become_one_have_one_session_and_lose_their_duplicates() -> None:
    events = (click("a", 100, "1"), click("b", 105, "2"), click("a", 101, "3"), click("b", 101, "3"))
    differing = (*events, click("b", 102, "4", amount=1), click("a", 102, "4", amount=2))
    log = Log(RULES, (Batch(differing, 200), Batch((click("one", 300, "9"),), 400), Batch((), 500)))
    old = stream_until(log, 1, 2)

    class ToOne(DrawnMigration):
        def key(self, key: str, event_id: str) -> str:
            return "one"

        def stays(self, key: str, event_id: str) -> bool:
            return True

        def timeout(self, event_id: str, timeout_ms: int) -> int:
            return timeout_ms

    new = migrated(old, ToOne(0, 1, splits=False), 3)
    for batch in log.batches[1:]:
        new.take(batch)
    (session,) = new.sessions
    assert session[:5] == ("one", None, 100, 105, 4)
    assert (new.repeated, sum(new.conflicting.values())) == (1, 1)
    assert PAYLOAD[1].name == "amount"
