"""Pacing of a feed: each tick of simulated time is sent in step with the wall clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessionizer_demo.feed.generator import Row

_LONGEST_SLEEP_S = 0.2
"""Longest time (s) until a request to stop is noticed."""


class StopFlag:
    """A request to stop, set once by a signal handler or another thread.

    It is a bare attribute, because signal handlers must not take locks.
    """

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        """Ask the feed to end after the tick it is writing."""
        self.is_set = True


class Clock(Protocol):
    """The clock that pacing uses. Tests replace it."""

    def now_ms(self) -> float:
        """Return the time in epoch ms."""

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass."""


class WallClock:
    """The machine's own clock."""

    def now_ms(self) -> float:
        """Return the time in epoch ms."""
        return time.time() * 1000

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Tick:
    """The rows of a span of time, the ``number``-th since the feed began. It ends at ``ends_ms`` (epoch ms)."""

    number: int
    ends_ms: int
    rows: tuple[Row, ...]


def ticks(rows: Iterable[Row], start_ms: int, tick_ms: int) -> Iterator[Tick]:
    """Yield ``rows`` as ticks of ``tick_ms``. Ticks without rows are omitted."""
    for number, tick_rows in groupby(rows, key=lambda row: (row.at_ms - start_ms) // tick_ms):
        yield Tick(number, start_ms + (number + 1) * tick_ms, tuple(tick_rows))


def paced(beats: Iterable[Tick], clock: Clock, stop: StopFlag) -> Iterator[Tick]:
    """Yield each tick when the clock has reached its end, so that no event is sent before it happened.

    The iterator ends when ``stop`` is set. A feed that falls behind does not wait, so it catches up.
    """
    for tick in beats:
        wait_until(tick.ends_ms, clock, stop)
        if stop.is_set:
            return
        yield tick


def unpaced(beats: Iterable[Tick], stop: StopFlag) -> Iterator[Tick]:
    """Yield each tick at once, until ``stop`` is set."""
    for tick in beats:
        if stop.is_set:
            return
        yield tick


def wait_until(moment_ms: float, clock: Clock, stop: StopFlag) -> None:
    """Sleep until ``moment_ms`` (epoch ms) or until ``stop`` is set."""
    while not stop.is_set and (left_ms := moment_ms - clock.now_ms()) > 0:
        clock.sleep(min(left_ms / 1000, _LONGEST_SLEEP_S))
