"""The hours of a maintenance window: the same for every process, in any zone, at midnight and when clocks change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.stream_spec.document.stream import DAYS, Upgrades, parse_window

MINUTE = 60_000
WEEK = 7 * 24 * 60 * MINUTE
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("window", "moment", "until"),
    [
        # 29 November 2026 is a Sunday
        ("Sun 03:00-05:00", "2026-11-29T02:59", None),
        ("Sun 03:00-05:00", "2026-11-29T03:00", "2026-11-29T05:00"),
        ("Sun 03:00-05:00", "2026-11-29T04:59", "2026-11-29T05:00"),
        ("Sun 03:00-05:00", "2026-11-29T05:00", None),
        ("Sun 03:00-05:00", "2026-11-30T04:00", None),
        ("03:00-05:00", "2026-11-30T04:00", "2026-11-30T05:00"),
        ("Sat,Sun 03:00-05:00", "2026-11-28T04:00", "2026-11-28T05:00"),
        ("Mon-Fri 03:00-05:00", "2026-11-28T04:00", None),
        ("Fri-Mon 03:00-05:00", "2026-11-30T04:00", "2026-11-30T05:00"),
        ("Sun 22:00-01:00", "2026-11-30T00:30", "2026-11-30T01:00"),
        ("Sun 22:00-01:00", "2026-11-29T00:30", None),
        ("Sun 22:00-24:00", "2026-11-29T23:59", "2026-11-30T00:00"),
        ("00:00-24:00", "2026-11-29T00:00", "2026-11-30T00:00"),
        ("Sun 03:00-05:00 Europe/Berlin", "2026-11-29T02:00", "2026-11-29T04:00"),
        ("Sun 03:00-05:00 Europe/Berlin", "2026-07-05T01:00", "2026-07-05T03:00"),
    ],
)
def test_a_moment_is_inside_or_outside(window: str, moment: str, until: str | None) -> None:
    expected = None if until is None else ms(until)
    assert parse_window(window).open_until(ms(moment)) == expected
    assert Upgrades.model_validate({"window": window}).open_until(ms(moment)) == expected


def test_without_a_window_nothing_is_open() -> None:
    assert Upgrades().open_until(ms("2026-11-29T04:00")) is None


times = st.integers(0, 24 * 60 - 1).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")
windows = st.builds(
    lambda day, start, end, zone: f"{day} {start}-{end} {zone}", st.sampled_from(DAYS), times, times,
    st.sampled_from(ZONES),
).filter(lambda text: text.split()[1][:5] != text.split()[1][6:])  # fmt: skip
moments = st.datetimes(datetime(2026, 1, 1), datetime(2036, 1, 1)).map(  # noqa: DTZ001  hypothesis wants naive ones
    lambda each: int(each.replace(tzinfo=UTC).timestamp() * 1000)
)


@given(windows, moments)
def test_a_window_opens_at_its_start_and_is_closed_at_its_end(window: str, now: int) -> None:
    hours = parse_window(window)
    start = hours.next_start(now)
    assert now < start <= now + WEEK + 3 * 60 * MINUTE
    local = datetime.fromtimestamp(start / 1000, hours.zone)
    skipped = local.utcoffset() != (local - timedelta(hours=4)).utcoffset()
    assert skipped or f"{DAYS[local.weekday()]} {local:%H:%M}" == window[:9]
    until = hours.open_until(start)
    # an hour that the clocks leave out may be all of a window
    if until is not None:
        assert start < until
        assert hours.open_until(until - 1) == until
        assert hours.open_until(until) is None


@given(windows, moments)
def test_an_open_window_ends_within_a_day_and_the_next_begins_later(window: str, now: int) -> None:
    hours = parse_window(window)
    until = hours.open_until(now)
    if until is not None:
        assert now < until <= now + 25 * 60 * MINUTE
        assert hours.next_start(now) >= until - 60 * MINUTE
