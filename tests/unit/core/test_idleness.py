"""How a quiet source's event time is taken to go on. Times are ms; the quiet begins at 10,000."""

from __future__ import annotations

import pytest

from sessionizer.core.definition.rules import IdleClock

BEGAN = 10_000
DUE = 100_000


@pytest.fixture
def clock() -> IdleClock:
    """Quiet for two seconds, then a punctuation a second at most."""
    clock = IdleClock(idle_after_ms=2_000, every_ms=1_000)
    clock.saw_events(BEGAN)
    return clock


def said(clock: IdleClock, now: int, watermark_ms: int | None = 500) -> int | None:
    return clock.floor(now, watermark_ms, latest_due_ms=DUE, caught_up=True)


def test_nothing_is_said_before_it_has_been_quiet_for_long_enough(clock: IdleClock) -> None:
    assert said(clock, BEGAN + 1_999) is None


def test_event_time_goes_on_with_the_wall_clock_from_where_it_stood(clock: IdleClock) -> None:
    assert said(clock, BEGAN + 2_000) == 2_500
    # the watermark has followed what was said, which changes nothing
    assert said(clock, BEGAN + 3_000, watermark_ms=2_500) == 3_500
    assert said(clock, BEGAN + 60_000, watermark_ms=3_500) == 60_500


def test_it_is_not_said_more_often_than_asked_for(clock: IdleClock) -> None:
    assert said(clock, BEGAN + 2_000) == 2_500
    assert said(clock, BEGAN + 2_999) is None
    assert said(clock, BEGAN + 3_000) == 3_500


def test_a_watermark_that_the_last_events_moved_late_is_where_it_goes_on_from(clock: IdleClock) -> None:
    assert said(clock, BEGAN + 2_000, watermark_ms=500) == 2_500
    assert said(clock, BEGAN + 3_000, watermark_ms=40_000) == 43_000
    assert said(clock, BEGAN + 4_000, watermark_ms=43_000) == 44_000


def test_events_end_the_quiet(clock: IdleClock) -> None:
    assert said(clock, BEGAN + 2_000) == 2_500
    clock.saw_events(BEGAN + 2_500)
    assert said(clock, BEGAN + 4_400, watermark_ms=900) is None
    assert said(clock, BEGAN + 4_500, watermark_ms=900) == 2_900


def test_a_clock_that_saw_no_events_counts_from_when_it_was_first_asked() -> None:
    clock = IdleClock(idle_after_ms=2_000, every_ms=1_000)
    assert said(clock, BEGAN) is None
    assert said(clock, BEGAN + 2_000) == 2_500


@pytest.mark.parametrize(
    ("watermark_ms", "latest_due_ms", "caught_up"),
    [(None, DUE, True), (500, None, True), (500, 500, True), (500, DUE, False)],
)
def test_there_must_be_something_to_close_and_nothing_to_read(
    clock: IdleClock, watermark_ms: int | None, latest_due_ms: int | None, caught_up: bool
) -> None:
    assert clock.floor(BEGAN + 9_000, watermark_ms, latest_due_ms=latest_due_ms, caught_up=caught_up) is None


def test_nothing_is_said_beyond_the_end_of_the_last_open_session(clock: IdleClock) -> None:
    def said_with(now: int, watermark_ms: int) -> int | None:
        return clock.floor(now, watermark_ms, latest_due_ms=3_000, caught_up=True)

    assert said_with(BEGAN + 2_000, 500) == 2_500
    assert said_with(BEGAN + 3_000, 2_500) == 3_000
    assert said_with(BEGAN + 4_000, 3_000) is None
