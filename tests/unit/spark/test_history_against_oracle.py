"""A history taken at once against the definition: many histories in one table, each under keys of its own."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sessionizer.control.records.driver_records import Heartbeat, Phase
from sessionizer.control.status.batch_progress import HEAVY_GROUP_BYTES, progress_line
from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.outcome import Outcome
from sessionizer.core.definition.rules import NEVER_MS, Caps, Clock, SessionRules
from sessionizer.core.key_group.group_load import NOTHING_OPEN, OpenInGroup
from sessionizer.core.key_group.table_rows import NOWHERE
from sessionizer.core.key_group.table_rows import session_rows as table_rows
from sessionizer.core.wire import codec as wide
from sessionizer.core.wire import rows
from sessionizer.core.wire.codec import decode
from sessionizer.core.wire.schema import group_labels
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.spark.history.read import FirstBatch
from sessionizer.spark.ingest.punctuation import GROUP, PUNCTUATION
from sessionizer.spark.query.assembly import packer
from support.streams.in_memory_groups import PAYLOAD, event_row_of, event_rows, event_table, plain_rows, row_of
from support.streams.in_memory_groups import session_rows as rows_of_sessions
from support.streams.strategies import ORIGIN_MS, examples_of, histories

HISTORIES = 150
IN_THE_MIDDLE_MS = ORIGIN_MS + 120


def rules(**others: Any) -> SessionRules:
    plain = {"watermark_delay_ms": 0, "gap_timeout_ms": 20, "client_timeouts_ms": {}}
    caps = Caps(**{name: others.pop(name) for name in Caps._fields if name in others})
    return SessionRules(clock=Clock.EVENT_TIME, caps=caps, **{**plain, **others})


RULES = {
    "client timeouts": rules(client_timeouts_ms={"app": 10, "tv": 50}),
    "max events": rules(max_events=2),
    "max duration": rules(max_duration_ms=20),
    "max bytes": rules(max_bytes=100, gap_timeout_ms=50),
    "all caps": rules(max_bytes=90, max_events=3, max_duration_ms=30, gap_timeout_ms=50),
    "both caps": rules(max_events=3, max_duration_ms=30, gap_timeout_ms=50),
    "no time": rules(gap_timeout_ms=NEVER_MS, max_events=5, max_duration_ms=60),
}


@pytest.fixture(scope="module")
def past() -> tuple[Event, ...]:
    found = enumerate(examples_of(histories(), HISTORIES))
    return tuple(replace(event, key=f"{number}/{event.key}") for number, history in found for event in history)


def decide_by_definition(events: tuple[Event, ...], given: SessionRules, until_ms: int) -> Outcome:
    """The one batch, and then the watermark alone: with this delay no event of the batch can move it."""
    end = Batch((), arrived_at_ms=2, floor_ms=until_ms)
    return sessionize([Batch(events, arrived_at_ms=1), end], replace(given, watermark_delay_ms=NEVER_MS))


def take(events: tuple[Event, ...], given: SessionRules, until_ms: int) -> pa.Table:
    first = FirstBatch(given, until_ms, PAYLOAD, PAYLOAD, keeps_later=True)
    return first.take(event_table(events, given, 0))


def tables_in(taken: pa.Table, kind: str) -> Iterator[pa.Table]:
    return (decode(row["blob"]) for row in taken.to_pylist() if row["kind"] == kind)


def closed_in(taken: pa.Table) -> Counter[Any]:
    return Counter(row for table in tables_in(taken, rows.SESSIONS) for row in rows_of_sessions(table))


def open_in(taken: pa.Table) -> Counter[Any]:
    found = Counter[Any]()
    for table in tables_in(taken, rows.OPEN_EVENTS):
        renamed = table.rename_columns({"clock_ms": "clock"}).drop_columns(["key_group", "admission"])
        for number, timeout_ms in enumerate(renamed["timeout_ms"].to_pylist()):
            ((row, _),) = event_rows(renamed.slice(number, 1)).items()
            found[(row, timeout_ms)] += 1
    return found


@pytest.mark.parametrize("name", RULES)
def test_closed_sessions_and_open_events_are_those_of_the_definition(past: tuple[Event, ...], name: str) -> None:
    expected = decide_by_definition(past, RULES[name], IN_THE_MIDDLE_MS)
    taken = take(past, RULES[name], IN_THE_MIDDLE_MS)
    assert closed_in(taken) == Counter(map(row_of, expected.closed))
    assert open_in(taken) == Counter(
        (event_row_of(admitted.event), admitted.timeout_ms) for admitted in expected.open_events
    )


@pytest.mark.parametrize("name", ["both caps", "no time"])
def test_without_an_end_every_session_closes(past: tuple[Event, ...], name: str) -> None:
    taken = take(past, RULES[name], NEVER_MS)
    assert closed_in(taken) == Counter(map(row_of, decide_by_definition(past, RULES[name], NEVER_MS).closed))
    assert not open_in(taken)


def test_the_histories_are_worth_comparing(past: tuple[Event, ...]) -> None:
    """Each reason, open and closed sessions, duplicates and conflicts occur often enough to be believed."""
    stopped = decide_by_definition(past, RULES["both caps"], IN_THE_MIDDLE_MS)
    reasons = Counter(session.close_reason for session in stopped.closed)
    assert len(reasons) == 4
    assert min(*reasons.values(), len(stopped.open_events), len(stopped.conflicting), stopped.duplicates_dropped) > 25


def test_a_long_stretch_is_cut_at_both_caps() -> None:
    events = tuple(Event("ann", None, ORIGIN_MS + 7 * n + n % 3, f"e{n:05}", payload=("view", n)) for n in range(5_000))
    caps = rules(max_events=9, max_duration_ms=50)
    expected = decide_by_definition(events, caps, NEVER_MS)
    assert closed_in(take(events, caps, NEVER_MS)) == Counter(map(row_of, expected.closed))


def test_keys_and_ids_with_a_nul_have_ids_of_their_own() -> None:
    at = ORIGIN_MS
    pairs = [("a", f"b\0{at}\0c"), (f"a\0{at}\0b", "c"), ("é\0", "d"), ("plain", "e")]
    events = tuple(Event(key, None, at, event_id, payload=("view", 1)) for key, event_id in pairs)
    shape = table_rows(PAYLOAD, keep_events=False)
    found = [
        row["session_id"]
        for table in tables_in(take(events, rules(), NEVER_MS), rows.SESSIONS)
        for batch in table.to_batches()
        for row in plain_rows(shape.rows(batch, NOWHERE))
    ]
    assert sorted(found) == sorted(each.session_id for each in decide_by_definition(events, rules(), NEVER_MS).closed)
    assert len(set(found)) == len(pairs)


BROUGHT = OpenInGroup(sessions=2, latest_due_ms=500, held_bytes=100, admitted=3, merged=False)
MERGED = OpenInGroup(sessions=1, latest_due_ms=400, held_bytes=70, admitted=0, merged=True)


def known(sessions: OpenSessions) -> tuple[int, int | None, tuple[int | None, int | None]]:
    return sessions.total, sessions.latest_due_ms, sessions.heaviest


def test_what_was_only_appended_counts_from_the_first_batch_on_and_a_merge_says_all_that_is_open(
    tmp_path: Path,
) -> None:
    sessions = OpenSessions(tmp_path / "a.json")
    assert known(sessions) == (0, None, (None, None))
    sessions.learn(0, [(3, BROUGHT), (1, MERGED)])
    assert known(sessions) == (3, 500, (3, 100))
    sessions.learn(1, [(3, BROUGHT)])
    assert known(sessions) == (5, 500, (3, 200))

    sessions = OpenSessions(tmp_path / "b.json")
    sessions.learn(0, [(3, BROUGHT)])
    sessions.learn(1, [(3, BROUGHT), (3, MERGED)])
    assert known(sessions) == (1, 400, (3, 70)), "even in the same batch"
    sessions.learn(2, [(3, NOTHING_OPEN)])
    assert known(sessions) == (0, None, (3, 0))


def test_a_batch_that_runs_again_after_a_restart_counts_once(tmp_path: Path) -> None:
    OpenSessions(tmp_path / "a.json").learn(7, [(3, BROUGHT), (1, BROUGHT)])
    again = OpenSessions(tmp_path / "a.json")
    again.learn(7, [(3, BROUGHT), (1, BROUGHT)])
    assert known(again) == (4, 500, (3, 100))
    again.learn(8, [(3, BROUGHT)])
    assert again.total == 6
    beat = Heartbeat("a", 1, 1, Phase.RUNNING, batch_id=1, heaviest_group=3, heaviest_group_bytes=HEAVY_GROUP_BYTES)
    assert progress_line(beat).endswith("key group 3 is heavy: 0.2 GiB open")


EVENTS, GROUPS, TEXT_BYTES = 1_000, 4, 500


def test_a_group_with_many_events_gets_several_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "PIECE_BYTES", 20_000)
    ids, nothing = [f"{number:04}" for number in range(EVENTS)], pa.nulls(EVENTS, pa.string())
    groups = pa.array([number % GROUPS for number in range(EVENTS)], pa.int32())
    columns = {"event_id": ids, "page": ["x" * TEXT_BYTES] * EVENTS, "reason": nothing}
    batch = pa.record_batch({**columns, PUNCTUATION: nothing, GROUP: groups})
    (packed,) = packer(["event_id", "page"], GROUPS)(iter([batch]))
    labels = group_labels(GROUPS).tolist()
    found: dict[int, list[str]] = {label: [] for label in labels}
    for row in packed.to_pylist():
        events = decode(row["blob"])
        assert row["kind"] == rows.EVENTS
        assert events.nbytes <= wide.PIECE_BYTES + 2 * TEXT_BYTES
        found[row[GROUP]] += events["event_id"].to_pylist()
    assert found == {label: ids[group::GROUPS] for group, label in enumerate(labels)}
