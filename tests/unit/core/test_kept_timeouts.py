"""The clients' timeouts as they lie in the state, and how many of them a batch looks at."""

from __future__ import annotations

import json
from collections import UserDict

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.definition.rules import NEVER_MS, SessionRules, TimeMode
from sessionizer.core.key_group.admission import admit
from sessionizer.core.key_group.kept_timeouts import kept_text, kept_timeouts
from sessionizer.core.wire import schema

RULES = SessionRules(
    time_mode=TimeMode.EVENT_TIME,
    watermark_delay_ms=0,
    gap_timeout_ms=5,
    client_timeouts_ms={"acme": 7, "globex": 8},
    max_events=None,
    max_duration_ms=None,
)
CLIENTS = ["acme", "globex", "initech", None, "acme", "hooli"]


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.integers(1, NEVER_MS)))
def test_what_was_kept_is_had_again(timeouts: dict[str, int]) -> None:
    text = kept_text(timeouts)
    assert text.isascii()
    assert kept_timeouts(text) == timeouts
    assert kept_text(dict(reversed(timeouts.items()))) == text


def test_what_an_earlier_release_kept_is_read_and_bounded() -> None:
    assert kept_timeouts(json.dumps({"acme": 5, "globex": 2**63 - 1})) == {"acme": 5, "globex": NEVER_MS}


def test_groups_that_keep_the_same_open_it_once() -> None:
    text = kept_text({f"client-{number}": number + 1 for number in range(1_000)})
    copy = "".join([text[:10], text[10:]])
    assert kept_timeouts(copy) is kept_timeouts(text)


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
    shown = schema.event_schema([], RULES.time_mode)
    row = {"key": "k", "event_id": "e", schema.CLOSES: False, schema.TIMEOUT: None}
    events = [row | {schema.CLIENT: client, schema.CLOCK: at + 1} for at, client in enumerate(CLIENTS)]
    table = pa.Table.from_pylist([{name: event.get(name) for name in shown.names} for event in events], shown)
    admitted = admit(table, 0, RULES, changes).admitted
    assert admitted.column(schema.TIMEOUT).to_pylist() == [70, 8, 5, 5, 70, 90]
    assert sorted(changes.asked) == ["acme", "globex", "hooli", "initech"]
