"""Open events that are migrated: a changed key merges or splits sessions exactly as the definition says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from zlib import crc32

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import Clock, SessionRules
from sessionizer.core.key_group.table_rows import decide_rows
from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import canonical_schema
from support.streams.in_memory_groups import PAYLOAD, InMemoryGroups, event_rows, event_rows_of, row_of, session_rows
from support.streams.strategies import Log, logs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.core.definition.event import AdmittedEvent


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
    found = [
        decide_rows(group.read(), number, old.shared, old.final_by, events)
        for number, group in enumerate(old.groups)
        if group.log
    ]
    for each in found:
        new.repeated += each.merged.repeated
        new.conflicting += event_rows(each.merged.conflicting)
        new.sessions += session_rows(each.merged.sessions)
    rows = [canonical_schema(events).empty_table(), *(each.rows for each in found)]
    new.begin_with(migration.of_rows(pa.concat_tables(rows)))
    return new


@settings(max_examples=200, deadline=None)
@given(
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


RULES = SessionRules(Clock.EVENT_TIME, 0, 10, {}, None, None)


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
