"""The faults of a feed: the choice of rows that get them, and the faults in the values of an event."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from sessionizer_demo.feed.rows.kinds import RowKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from sessionizer_demo.feed.traffic.events import ClickEvent

DEFAULT_FAULT_RATES: dict[RowKind, float] = {
    RowKind.LATE_WITHIN: 0.02,
    RowKind.LATE_BEYOND: 0.005,
    RowKind.EXACT_DUPLICATE: 0.01,
    RowKind.CONFLICTING_DUPLICATE: 0.002,
    RowKind.TRUNCATED: 0.001,
    RowKind.WRONG_TYPE: 0.001,
    RowKind.INVALID_UTF8: 0.0005,
    RowKind.NULL_KEY: 0.001,
    RowKind.NULL_EVENT_ID: 0.0005,
    RowKind.NULL_TIME: 0.001,
    RowKind.NON_POSITIVE_TIMEOUT: 0.0005,
    RowKind.SECONDS_FOR_MILLISECONDS: 0.0005,
    RowKind.MILLISECONDS_FOR_SECONDS: 0.0005,
    RowKind.FUTURE: 0.0005,
}
"""Share of all rows for each kind. The other rows are normal."""

_TEN_YEARS_MS = 3_652 * 24 * 3600 * 1000
_SURELY_LATE_MS = (60_000, 300_000)
"""Range (ms) by which a late row exceeds the delay, because the watermark trails the newest row by up to a batch."""
_REMEMBERED_EVENTS = 200
_DUPLICATES = frozenset({RowKind.EXACT_DUPLICATE, RowKind.CONFLICTING_DUPLICATE})


_WRONG_TIMES: dict[RowKind, Callable[[int, int, Random], int]] = {
    RowKind.LATE_WITHIN: lambda ts, delay_ms, rng: ts - int(delay_ms * rng.uniform(0.1, 0.8)),
    RowKind.LATE_BEYOND: lambda ts, delay_ms, rng: ts - delay_ms - rng.randint(*_SURELY_LATE_MS),
    RowKind.SECONDS_FOR_MILLISECONDS: lambda ts, _delay_ms, _rng: ts // 1000,
    RowKind.MILLISECONDS_FOR_SECONDS: lambda ts, _delay_ms, _rng: ts * 1000,
    RowKind.FUTURE: lambda ts, _delay_ms, _rng: ts + _TEN_YEARS_MS,
}
"""Functions from the true time and the watermark delay to the time that the row shows, all in ms."""


class FaultPicker:
    """A random choice of each row's kind, with the shares of ``rates``."""

    def __init__(self, rates: Mapping[RowKind, float], rng: Random) -> None:
        self._kinds = tuple(rates)
        self._thresholds = tuple(accumulate(rates.values()))
        self._rng = rng

    def pick(self) -> RowKind:
        """Choose the kind of the next row."""
        drawn = self._rng.random()
        for kind, threshold in zip(self._kinds, self._thresholds, strict=True):
            if drawn < threshold:
                return kind
        return RowKind.NORMAL


class RecentEvents:
    """Events that may be sent again, so recent that their session is certainly open.

    Each event is used once. With three rows of one event id, the order inside a batch would decide which row is the
    duplicate, and the ground truth would be a guess.
    """

    def __init__(self, watermark_delay_ms: int) -> None:
        self._oldest_ms = watermark_delay_ms / 2
        self._events: deque[ClickEvent] = deque(maxlen=_REMEMBERED_EVENTS)

    def remember(self, event: ClickEvent) -> None:
        """Remember ``event``, which was sent without a fault."""
        self._events.append(event)

    def take(self, now_ms: float, rng: Random) -> ClickEvent | None:
        """Remove and return one of the remembered events, or return None if all are too old."""
        while self._events and self._events[0].ts < now_ms - self._oldest_ms:
            self._events.popleft()
        if not self._events:
            return None
        position = rng.randrange(len(self._events))
        event = self._events[position]
        del self._events[position]
        return event


def is_duplicate(kind: RowKind) -> bool:
    """Whether a row of this kind repeats an earlier event."""
    return kind in _DUPLICATES


def spoil_event(event: ClickEvent, kind: RowKind, watermark_delay_ms: int, rng: Random) -> ClickEvent:
    """Return the event with the fault of ``kind`` if it is a fault of value. The writer adds faults of form."""
    if kind is RowKind.CONFLICTING_DUPLICATE:
        return replace(event, page=f"{event.page}#again", amount=event.amount + 1, device="unknown")
    if kind is RowKind.NON_POSITIVE_TIMEOUT:
        return replace(event, timeout_s=rng.choice((0, -1, -30)))
    if kind in _WRONG_TIMES:
        return replace(event, ts=_WRONG_TIMES[kind](event.ts, watermark_delay_ms, rng))
    return event
