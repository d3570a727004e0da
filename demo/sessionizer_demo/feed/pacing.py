"""From simulated time to the clock on the wall."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessionizer_demo.feed.generator import Row

_LONGEST_SLEEP_S = 0.2
"""A request to stop is noticed after at most this long."""


class StopFlag:
    """Set once, by a signal handler or another thread. A bare attribute: handlers must not take locks."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        """Ask the feed to end after the tick it is writing."""
        self.is_set = True


class Clock(Protocol):
    """What pacing needs to know of time; tests bring their own."""

    def now_ms(self) -> float:
        """The time, in epoch ms."""

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass."""


class WallClock:
    """The machine's own clock."""

    def now_ms(self) -> float:
        """The time, in epoch ms."""
        return time.time() * 1000

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Tick:
    """The rows sent between two beats, the ``number``-th since the feed began; over at ``ends_ms`` (epoch ms)."""

    number: int
    ends_ms: int
    rows: tuple[Row, ...]


def ticks(rows: Iterable[Row], start_ms: int, tick_ms: int) -> Iterator[Tick]:
    """``rows`` cut every ``tick_ms``; a tick without rows is left out."""
    for number, tick_rows in groupby(rows, key=lambda row: (row.at_ms - start_ms) // tick_ms):
        yield Tick(number, start_ms + (number + 1) * tick_ms, tuple(tick_rows))


def paced(beats: Iterable[Tick], clock: Clock, stop: StopFlag) -> Iterator[Tick]:
    """Each tick when the clock says that it is over, so that no event is ever sent before it happened.

    Ends when ``stop`` is set. A feed that falls behind does not wait: it catches up.
    """
    for tick in beats:
        wait_until(tick.ends_ms, clock, stop)
        if stop.is_set:
            return
        yield tick


def unpaced(beats: Iterable[Tick], stop: StopFlag) -> Iterator[Tick]:
    """Each tick at once, until ``stop`` is set."""
    for tick in beats:
        if stop.is_set:
            return
        yield tick


def wait_until(moment_ms: float, clock: Clock, stop: StopFlag) -> None:
    """Sleep until ``moment_ms`` (epoch ms) or until ``stop`` is set."""
    while not stop.is_set and (left_ms := moment_ms - clock.now_ms()) > 0:
        clock.sleep(min(left_ms / 1000, _LONGEST_SLEEP_S))
