"""Every Hypothesis strategy of the tests.

A log is told from a list of eight-byte tokens, each an event, an event sent again or the end of a batch. One draw per
token keeps thousands of logs cheap, a token of zeroes is the plainest event, and fewer tokens make a shorter log: so
failures shrink to something readable. Times are a few ms apart and timeouts are few, so that events often fall on a
boundary to the millisecond.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.rules import NEVER_MS, Caps, Clock, SessionRules
from support.streams.payloads import COLUMNS, fitting

T = TypeVar("T")

ORIGIN_MS = 1_700_000_000_000
PAYLOAD_COLUMNS = {"action": "string", "amount": "bigint"}
"""The columns of every event's payload, in order, with their SQL types."""

ALL_MODES = tuple(Clock)
LONG = (pytest.mark.long, pytest.mark.timeout(3_600))

_KEYS = ("ann", "bob", "ann", "cy")
_CLIENTS = ("web", None, "app", "tv")
_TIMEOUTS_MS = (10, 20, 50)
_OWN_TIMEOUTS_MS = (None, None, None, *_TIMEOUTS_MS, 2**63 - 1)
_STEPS_MS = (0, 0, 1, 2, 5, 10, 10, 20, 21, 50, 200)
_AGES_MS = (0, 0, 0, 0, 1, 9, 10, 20, 60)
_ARRIVAL_STEPS_MS = (10, 1, 5, 11, 20, 50)
_CLOCK_OFFSETS_MS = (0, 0, 1_000, 0, 0, -5, -30, -200)
"""Where the clock of a batch is, seen from the newest event: clients may be ahead of it."""
_FLOOR_OFFSETS_MS = (None, None, None, -20, 0, 10, 30)
_ACTIONS = ("view", None, "buy")
_AMOUNTS = (9, None, 10)


def given_few_or_many(
    few: int, many: int, **strategies: SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """A property that is tried with a few examples, and with many by the long tests."""

    def as_test(holds: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("examples", [few, pytest.param(many, marks=LONG)])
        def test(examples: int) -> None:
            settings(max_examples=examples)(given(**strategies)(holds))()

        return test

    return as_test


def drain_at(arrived_at_ms: int) -> Batch:
    """The batch that closes every open session. It has no events, because in event time all would be late."""
    return Batch(events=(), arrived_at_ms=arrived_at_ms, floor_ms=NEVER_MS)


@dataclass(frozen=True, slots=True)
class Log:
    rules: SessionRules
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class ChangingLog:
    """A log whose spec is changed between batches: ``payloads`` has the payload columns of each batch."""

    log: Log
    payloads: tuple[tuple[pa.Field, ...], ...]


@dataclass(frozen=True, slots=True)
class OrderlyLog:
    """Event-time events in their order of arrival, such that none is late in any division into batches."""

    rules: SessionRules
    events: tuple[Event, ...]


# Rules


def rules(modes: Sequence[Clock] = ALL_MODES) -> SearchStrategy[SessionRules]:
    return st.builds(_tell_rules, st.sampled_from(modes), st.binary(min_size=6, max_size=6))


def _tell_rules(mode: Clock, token: bytes) -> SessionRules:
    delay, gap, clients, max_events, max_duration, max_bytes = token
    return SessionRules(
        clock=mode,
        watermark_delay_ms=_pick((10, 0, 20, 100), delay),
        gap_timeout_ms=_pick(_TIMEOUTS_MS, gap),
        client_timeouts_ms=_pick(({}, {"app": 20}, {"app": 10, "tv": 50}), clients),
        caps=Caps(
            max_events=_pick((None, None, 1, 2, 3, 5), max_events),
            max_duration_ms=_pick((None, None, 1, 20, 60), max_duration),
            max_bytes=_pick((None, None, None, 1, 50, 51, 100, 150), max_bytes),
        ),
    )


def _pick(choices: Sequence[T], byte: int) -> T:
    return choices[byte % len(choices)]


def _happens(byte: int, share: float) -> bool:
    return byte >= (1 - share) * 256


# Logs


def logs(modes: Sequence[Clock] = ALL_MODES, *, drained: bool | None = None) -> SearchStrategy[Log]:
    """Logs with all that can happen to a stream; ``drained`` says whether the last batch closes everything."""
    drains = st.booleans() if drained is None else st.just(drained)
    return st.builds(_tell_log, rules(modes), _tokens(), drains=drains)


def changing_logs() -> SearchStrategy[ChangingLog]:
    """Logs in which rules and payload change: columns of every type come, go, change places and become wider."""
    return st.builds(_tell_changing_log, logs(), st.integers(0, 2**32))


def orderly_logs() -> SearchStrategy[OrderlyLog]:
    """Events with ties, exact duplicates and disorder within the delay, but no late and no conflicting ones."""
    return st.builds(_tell_orderly_log, rules([Clock.EVENT_TIME]), _tokens())


def histories() -> SearchStrategy[tuple[Event, ...]]:
    return st.builds(lambda tokens: tuple(_Telling(Clock.EVENT_TIME).listen(tokens).events), _tokens())


def examples_of(strategy: SearchStrategy[T], count: int) -> list[T]:
    """``count`` examples at once, the same on every run: for tests that put many logs into one expensive job."""
    found: list[T] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def gather(example: T) -> None:
        found.append(example)

    gather()
    return found


def _tokens() -> SearchStrategy[list[bytes]]:
    size = len(_Token._fields)
    token = st.binary(min_size=size, max_size=size)
    return st.one_of(st.lists(token, max_size=12), st.lists(token, min_size=20, max_size=60))


def _tell_log(rules_of_log: SessionRules, tokens: Iterable[bytes], *, drains: bool) -> Log:
    telling = _Telling(rules_of_log.clock).listen(tokens)
    telling.end_batch()
    if drains:
        telling.drain()
    return Log(rules_of_log, tuple(telling.batches))


def _tell_changing_log(log: Log, seed: int) -> ChangingLog:
    spec = ChangingSpec(log.rules, random.Random(seed))
    batches, payloads = [], []
    for batch in log.batches:
        events = tuple(shown_by(spec.payload, event) for event in batch.events)
        batches.append(replace(batch, events=events, rules=spec.rules))
        payloads.append(spec.payload)
        spec.change()
    return ChangingLog(replace(log, batches=tuple(batches)), tuple(payloads))


class ChangingSpec:
    """The rules and the payload in force; the time mode stays, and no column ever gets a narrower type."""

    def __init__(self, rules_at_first: SessionRules, chance: random.Random) -> None:
        self.rules = rules_at_first
        self.payload: tuple[pa.Field, ...] = ()
        self._chance = chance
        self._width = dict.fromkeys(COLUMNS, 0)
        self._change_payload()

    def change(self) -> None:
        """What people do between two batches: nothing, as often as not."""
        if self._chance.random() < 0.5:
            self._change_payload()
        if self._chance.random() < 0.3:
            self.rules = _tell_rules(self.rules.clock, self._chance.randbytes(6))

    def _change_payload(self) -> None:
        for name, column in COLUMNS.items():
            if self._chance.random() < 0.4:
                self._width[name] = min(self._width[name] + 1, len(column.types) - 1)
        kept = [field.name for field in self.payload if self._chance.random() < 0.6]
        # first of those whose type has wider ones: what is widened while it is kept is the change that asks the most
        others = sorted((name for name in COLUMNS if name not in kept), key=lambda name: len(COLUMNS[name].types) == 1)
        new = self._chance.sample(others[: self._chance.choice((6, len(others)))], self._chance.randrange(4))
        names = self._chance.sample(kept + new, len(kept) + len(new))
        self.payload = tuple(pa.field(name, COLUMNS[name].types[self._width[name]]) for name in names)


def shown_by(payload: Sequence[pa.Field], event: Event) -> Event:
    """The event by these columns. Its two values stand for one of each column: the same wherever they are."""
    number = 3 * _ACTIONS.index(event.payload[0]) + _AMOUNTS.index(event.payload[1])
    values = (
        fitting((None, *COLUMNS[field.name].values)[number % (len(COLUMNS[field.name].values) + 1)], field.type)
        for field in payload
    )
    return replace(event, payload=tuple(values), columns=tuple(field.name for field in payload))


NUMBER_AS_SQL = (
    "(case when action is null then 3 when action = 'buy' then 6 else 0 end"
    " + case when amount is null then 1 when amount = 10 then 2 else 0 end)"
)
"""The number by which ``shown_by`` picks a value, of the columns ``action`` and ``amount``."""


def _tell_orderly_log(rules_of_log: SessionRules, tokens: Iterable[bytes]) -> OrderlyLog:
    telling = _Telling(Clock.EVENT_TIME).listen(tokens)
    return OrderlyLog(rules_of_log, tuple(_orderly(telling.events, rules_of_log.watermark_delay_ms)))


def _orderly(events: Iterable[Event], delay_ms: int) -> Iterator[Event]:
    """Leave out conflicting events, and those not above the highest time of *all* before them less the delay."""
    highest_ms = 0
    first_with_id: dict[tuple[str, str], Event] = {}
    for event in events:
        time_ms = event.event_time_ms or 0
        if time_ms > highest_ms - delay_ms and first_with_id.setdefault((event.key, event.event_id), event) == event:
            highest_ms = max(highest_ms, time_ms)
            yield event


def lags_ms() -> SearchStrategy[int]:
    """How far a stream is behind, ms: not at all, some batches, or hopelessly."""
    return st.sampled_from([0, 100, 10**6])


def delayed(log: Log, by_ms: int) -> Log:
    """The log of a stream that is so far behind: each batch arrives later. On arrival it would be another log."""
    if log.rules.clock is not Clock.EVENT_TIME:
        return log
    return replace(
        log, batches=tuple(replace(batch, arrived_at_ms=batch.arrived_at_ms + by_ms) for batch in log.batches)
    )


# How a log is told


class _Token(NamedTuple):
    """One byte for each thing that an event, or the end of a batch, may choose."""

    kind: int
    key: int
    step: int
    age: int
    client: int
    closes: int
    timeout: int
    payload: int


class _Telling:
    """The log so far. In the modes that run on arrival an event may have no time of its own."""

    def __init__(self, mode: Clock) -> None:
        self._mode = mode
        self._now_ms = ORIGIN_MS
        self._arrived_ms = ORIGIN_MS
        self._pending: list[Event] = []
        self.events: list[Event] = []
        self.batches: list[Batch] = []

    def listen(self, tokens: Iterable[bytes]) -> _Telling:
        for token in tokens:
            self._take(_Token(*token))
        return self

    def _take(self, token: _Token) -> None:
        if _happens(token.kind, 0.18):
            self.end_batch(token)
            if _happens(token.key, 0.15):
                self._send_whole_batch_again()
        elif _happens(token.kind, 0.45) and self.events:
            self._send(self._again(self.events[token.key % len(self.events)], token))
        else:
            self._send(self._new_event(token))

    def _send(self, event: Event) -> None:
        self._pending.append(event)
        self.events.append(event)

    def _send_whole_batch_again(self) -> None:
        """As a producer does that was not told that its batch had arrived."""
        for event in self.batches[-1].events:
            self._send(event)

    def _new_event(self, token: _Token) -> Event:
        self._now_ms += _pick(_STEPS_MS, token.step)
        return Event(
            key=_pick(_KEYS, token.key),
            client=_pick(_CLIENTS, token.client),
            event_time_ms=self._event_time(token),
            event_id=f"{'abc'[token.kind % 3]}{len(self.events)}",
            closes=_happens(token.closes, 0.12),
            timeout_ms=_pick(_OWN_TIMEOUTS_MS, token.timeout),
            payload=(_pick(_ACTIONS, token.payload), _pick(_AMOUNTS, token.payload // len(_ACTIONS))),
        )

    def _event_time(self, token: _Token) -> int | None:
        if self._mode is not Clock.EVENT_TIME and _happens(token.age, 0.12):
            return None
        return self._now_ms - _pick(_AGES_MS, token.age)

    def _again(self, event: Event, token: _Token) -> Event:
        """An earlier event once more: exactly, or with something else about it."""
        time_ms = event.event_time_ms
        moved_ms = time_ms and time_ms + _pick(_STEPS_MS, token.step)
        variants = (
            event,
            event,
            event,
            replace(event, timeout_ms=_pick(_OWN_TIMEOUTS_MS, token.timeout)),
            replace(event, key=_pick(_KEYS, token.client)),
            replace(event, payload=(_pick(_ACTIONS, token.payload), _pick(_AMOUNTS, token.payload // len(_ACTIONS)))),
            replace(event, client=_pick(_CLIENTS, token.client)),
            replace(event, event_time_ms=moved_ms),
            replace(event, event_time_ms=self._event_time(token)),
            replace(event, closes=not event.closes),
        )
        return _pick(variants, token.kind)

    def end_batch(self, token: _Token | None = None) -> None:
        """Close the batch, with a punctuation if the token says so; two ends in a row make an empty batch."""
        token = token or _Token(*[0] * len(_Token._fields))
        self._arrived_ms = self._arrival(token)
        changes = {_pick(("app", "web"), token.client): _pick((*_TIMEOUTS_MS, 2**63 - 1), token.timeout)}
        batch = Batch(
            events=tuple(self._pending),
            arrived_at_ms=self._arrived_ms,
            floor_ms=self._floor(token),
            timeout_changes=changes if _happens(token.closes, 0.2) else {},
        )
        self.batches.append(batch)
        self._pending = []

    def _arrival(self, token: _Token) -> int:
        """In event time the clock goes with the events, and is only what their times are held against."""
        next_ms = self._arrived_ms + _pick(_ARRIVAL_STEPS_MS, token.step)
        if self._mode is not Clock.EVENT_TIME:
            return next_ms
        return max(next_ms, self._now_ms + _pick(_CLOCK_OFFSETS_MS, token.payload))

    def _floor(self, token: _Token) -> int | None:
        offset_ms = _pick(_FLOOR_OFFSETS_MS, token.age)
        if offset_ms is None:
            return None
        return offset_ms + (self._now_ms if self._mode is Clock.EVENT_TIME else self._arrived_ms)

    def drain(self) -> None:
        self.batches.append(drain_at(self._arrived_ms + 1))
