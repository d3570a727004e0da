"""A history taken as the first batch, and what comes after it, against the definition of one stream over everything."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import NEVER_MS, Clock
from sessionizer.core.wire import schema
from sessionizer.core.wire import schema as rows
from sessionizer.core.wire.canonical import canonical_schema
from sessionizer.core.wire.codec import decode
from sessionizer.home.json_record import add_stamp
from sessionizer.spark.history.history_reader import spec_of_history
from sessionizer.spark.history.read import FirstBatch
from sessionizer.stream_spec.decisions import document_of, spec_fingerprint
from support.streams.in_memory_groups import (
    PAYLOAD,
    InMemoryGroups,
    event_rows_of,
    event_table,
    row_of,
    session_rows,
)
from support.streams.stage import Stage, clicks_spec
from support.streams.strategies import ORIGIN_MS, Log, logs

if TYPE_CHECKING:
    from pathlib import Path

CANONICAL = canonical_schema(schema.event_schema(PAYLOAD, Clock.EVENT_TIME))


def tables_in(taken: pa.Table, kind: str) -> list[pa.Table]:
    return [decode(row["blob"]) for row in taken.to_pylist() if row["kind"] == kind]


def counted(taken: pa.Table, kind: str) -> int:
    return sum(row["row_count"] for row in taken.to_pylist() if row["kind"] == kind)


@settings(max_examples=200, deadline=None)
@given(
    log=logs([Clock.EVENT_TIME], drained=True),
    share=st.floats(0, 1),
    moment=st.integers(-50, 500),
    keeps_later=st.booleans(),
    key_groups=st.integers(1, 4),
)
def test_both_together_are_one_stream(log: Log, share: float, moment: int, keeps_later: bool, key_groups: int) -> None:
    cut = round(share * len(log.batches))
    came = tuple(chain.from_iterable(batch.events for batch in log.batches[:cut]))
    moment_ms = ORIGIN_MS + moment
    later = tuple(event for event in came if (event.event_time_ms or 0) > moment_ms)
    history = came if keeps_later else tuple(event for event in came if event not in later)
    live = after(log, cut, () if keeps_later else later)

    rules = replace(log.rules, emit_every_ms=0)
    taken = FirstBatch(rules, moment_ms, PAYLOAD, PAYLOAD, keeps_later).take(event_table(came, rules, 0))
    groups = InMemoryGroups(rules, key_groups)
    groups.begin_with(pa.concat_tables([CANONICAL.empty_table(), *tables_in(taken, rows.OPEN_EVENTS)]), moment_ms)
    for batch in live:
        groups.take(batch)

    aside = replace(rules, watermark_delay_ms=NEVER_MS)
    first = [Batch(history, 0, rules=aside), Batch((), 1, floor_ms=moment_ms, rules=rules)]
    expected = sessionize([*first, *live], rules)
    sessions, still_open = groups.settle()
    sessions += chain.from_iterable(map(session_rows, tables_in(taken, rows.SESSIONS)))
    assert Counter(sessions) == Counter(map(row_of, expected.closed))
    assert still_open == event_rows_of(admitted.event for admitted in expected.open_events)
    assert groups.late == event_rows_of(expected.late)
    assert groups.repeated + counted(taken, rows.REPEATED) == expected.duplicates_dropped
    begun = sessionize(first, rules)
    assert counted(taken, rows.OPEN_EVENTS) == len(begun.open_events)
    assert counted(taken, rows.SESSIONS) == len(begun.closed)
    assert counted(taken, rows.QUARANTINE) == len(begun.conflicting)
    assert counted(taken, rows.LATER) == len(came) - len(history)
    assert groups.conflicting.total() + counted(taken, rows.QUARANTINE) == len(expected.conflicting)


def after(log: Log, cut: int, again: tuple[Event, ...]) -> list[Batch]:
    """What the live source brings: ``again`` first, then the batches after the ``cut``."""
    rest = list(log.batches[cut:])
    return [Batch(again, ORIGIN_MS + 10_000), *rest] if again else rest


def test_a_seed_goes_on_by_the_spec_that_its_history_was_read_by(tmp_path: Path) -> None:
    """The command was killed after that, and its file was edited."""
    approved = Stage.set_up(tmp_path / "approved", clicks_spec()).spec()
    edited = Stage.set_up(tmp_path / "edited", clicks_spec(gap_timeout="5 seconds")).spec()
    assert spec_of_history(tmp_path, edited) == edited, "nothing was read"
    (tmp_path / "taken.json").write_text(json.dumps(add_stamp({"spec": document_of(approved)})))
    assert spec_fingerprint(spec_of_history(tmp_path, edited)) == spec_fingerprint(approved)
