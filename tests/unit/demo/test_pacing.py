"""A feed keeps step with the clock, which is a clock of the test's own here."""

from __future__ import annotations

from itertools import islice

from sessionizer_demo.feed.generator import generate, generate_within
from sessionizer_demo.feed.pacing import StopFlag, Tick, paced, ticks, wait_until
from sessionizer_demo.feed.scenario import Bounds, Scenario

START_MS = 1_750_000_000_000


class SteppedClock:
    """Time that passes only in ``sleep``, plus ``drag_ms`` each time somebody looks at it."""

    def __init__(self, now_ms: float = START_MS, drag_ms: float = 0) -> None:
        self._now_ms, self._drag_ms = now_ms, drag_ms
        self.slept_s = 0.0

    def now_ms(self) -> float:
        self._now_ms += self._drag_ms
        return self._now_ms

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self._now_ms += seconds * 1000


def ten_seconds(rate: float = 50) -> list[Tick]:
    rows = generate_within(Scenario(start_ms=START_MS, rate=rate), Bounds(duration_s=10))
    return list(ticks(rows, START_MS, 1000))


def test_a_tick_holds_the_rows_of_its_second_and_none_is_lost() -> None:
    beats = ten_seconds()
    assert [tick.number for tick in beats] == list(range(10))
    for tick in beats:
        assert all(tick.ends_ms - 1000 <= row.at_ms < tick.ends_ms for row in tick.rows)
    scenario = Scenario(start_ms=START_MS, rate=50)
    assert [row for tick in beats for row in tick.rows] == list(generate_within(scenario, Bounds(duration_s=10)))


def test_ticks_without_rows_are_left_out() -> None:
    beats = list(islice(ticks(generate(Scenario(start_ms=START_MS, rate=0.01)), START_MS, 1000), 5))
    assert all(tick.rows for tick in beats)
    assert [tick.number for tick in beats] != list(range(5))


def test_a_tick_is_sent_when_it_is_over_and_not_before() -> None:
    clock = SteppedClock()
    for tick in paced(ten_seconds(), clock, StopFlag()):
        assert abs(clock.now_ms() - tick.ends_ms) < 1
    assert round(clock.slept_s) == 10


def test_a_feed_that_is_behind_does_not_wait() -> None:
    clock = SteppedClock(now_ms=START_MS + 60_000)
    assert len(list(paced(ten_seconds(), clock, StopFlag()))) == 10
    assert clock.slept_s == 0


def test_a_slow_sink_is_made_up_for() -> None:
    clock = SteppedClock(drag_ms=20)
    list(paced(ten_seconds(), clock, StopFlag()))
    assert abs(clock.now_ms() - START_MS - 10_000) < 300


def test_a_stop_ends_the_wait_and_sends_nothing_more() -> None:
    stop = StopFlag()

    class StoppingClock(SteppedClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.slept_s > 2.5:
                stop.set()

    sent = list(paced(ten_seconds(), StoppingClock(), stop))
    assert [tick.number for tick in sent] == [0, 1]
    wait_until(START_MS + 10**9, StoppingClock(), stop)
