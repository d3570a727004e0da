"""The clients' timeouts as they lie in the state, and how many of them a batch looks at."""

from __future__ import annotations

from collections import UserDict
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.definition.rules import NEVER_MS, Clock, SessionRules
from sessionizer.core.key_group.append_or_merge import admit
from sessionizer.core.key_group.kept_timeouts import keep_timeouts, read_kept_timeouts
from sessionizer.core.wire import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RULES = SessionRules(
    clock=Clock.EVENT_TIME,
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
    shown = schema.event_schema([], RULES.clock)
    row = {"key": "k", "event_id": "e", schema.CLOSES: False, schema.TIMEOUT: None}
    events = [row | {schema.CLIENT: client, schema.CLOCK: at + 1} for at, client in enumerate(CLIENTS)]
    table = pa.Table.from_pylist([{name: event.get(name) for name in shown.names} for event in events], shown)
    admitted = admit(table, 0, RULES, changes).admitted
    assert admitted.column(schema.TIMEOUT).to_pylist() == [70, 8, 5, 5, 70, 90]
    assert sorted(changes.asked) == ["acme", "globex", "hooli", "initech"]
