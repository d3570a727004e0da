"""What docs/sessions.md says a session is, by its own examples: the definition and the Arrow core do the same."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.core.definition.oracle import sessionize
from support.expected.worked_examples import Example, ToldSession, read_examples
from support.places import REPOSITORY
from support.streams.in_memory_groups import InMemoryGroups, Row, event_rows_of

if TYPE_CHECKING:
    from sessionizer.core.definition.event import Session

PAGE = REPOSITORY / "docs" / "sessions.md"
EXAMPLES = read_examples(PAGE)
by_line = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"line {example.line}")


@by_line
def test_the_definition_does_as_the_page_says(example: Example) -> None:
    before = sessionize((), example.rules)
    for number, told in enumerate(example.told, start=1):
        after = sessionize(example.batches[:number], example.rules)
        closed = after.closed[len(before.closed) :]
        assert Counter(map(plain, closed)) == Counter((told.events, told.reason) for told in told.sessions)
        for session in told.sessions:
            assert facts_of(next(found for found in closed if found.events == session.events), session) == session.facts
        assert Counter(after.late[len(before.late) :]) == Counter(told.late)
        assert Counter(after.conflicting[len(before.conflicting) :]) == Counter(told.conflicting)
        assert after.duplicates_dropped - before.duplicates_dropped == len(told.repeated)
        assert told.watermark_ms in (None, after.watermark_ms)
        before = after
    assert Counter(admitted.event for admitted in before.open_events) == Counter(example.open_events)


@by_line
def test_the_arrow_core_does_as_the_page_says(example: Example) -> None:
    groups = InMemoryGroups(example.rules, key_groups=2)
    for batch in example.batches:
        groups.take(batch)
    sessions, open_events = groups.settle()
    assert Counter(map(told_by_core, sessions)) == Counter(
        (tuple(event.event_id for event in session.events), session.events[0].key, session.reason)
        for told in example.told
        for session in told.sessions
    )
    assert open_events == event_rows_of(example.open_events)
    assert groups.late == event_rows_of(event for told in example.told for event in told.late)
    assert groups.conflicting == event_rows_of(event for told in example.told for event in told.conflicting)
    assert groups.repeated == sum(len(told.repeated) for told in example.told)


def test_the_examples_are_read_and_show_all_that_can_happen() -> None:
    told = [told for example in EXAMPLES for told in example.told]
    reasons = {session.reason for each in told for session in each.sessions}
    assert reasons == {"closing_event", "gap", "max_events", "max_bytes", "max_duration"}
    assert all(any(getattr(each, what) for each in told) for what in ("late", "repeated", "conflicting"))


def plain(session: Session) -> tuple[Any, ...]:
    return (session.events, session.close_reason.value)


def facts_of(session: Session, told: ToldSession) -> dict[str, str]:
    """The facts that the page tells of this session, as they are."""
    found = {
        "client": str(session.client),
        "from": str(session.started_at_ms),
        "until": str(session.ended_at_ms),
        "id": session.session_id,
    }
    return {name: found[name] for name in told.facts}


def told_by_core(row: Row) -> tuple[Any, ...]:
    key, _client, _started, _ended, _count, reason, _first, events = row
    assert isinstance(events, tuple)
    return (tuple(event[0] for event in events), key, reason)
