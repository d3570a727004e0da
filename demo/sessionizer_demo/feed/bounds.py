"""How long a feed lasts."""

from __future__ import annotations

from dataclasses import dataclass

from sessionizer.errors import InvalidSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The feed ends after ``duration_s`` seconds of simulated time or ``events`` rows, whichever comes first.

    None is no bound; with neither the feed is endless. Raises InvalidSpec for a bound that lets nothing pass.
    """

    duration_s: float | None = None
    events: int | None = None

    def __post_init__(self) -> None:
        if self.duration_s is not None and self.duration_s <= 0:
            raise InvalidSpec("feed.duration", self.duration_s, "more than 0 seconds")
        if self.events is not None and self.events <= 0:
            raise InvalidSpec("feed.events", self.events, "more than 0 events")


def start_in_the_past(now_ms: float, least_rate: float, bounds: Bounds) -> int:
    """The start (epoch ms) of a feed that is played at once, such that nothing in it happens after ``now_ms``.

    ``least_rate`` is in events per second: a feed bounded by events is taken to be that slow all the time.
    """
    spans_s = [] if bounds.duration_s is None else [bounds.duration_s]
    if bounds.events is not None:
        if least_rate <= 0:
            raise InvalidSpec("feed.rate", least_rate, "more than 0 events per second")
        spans_s.append(bounds.events / least_rate)
    if not spans_s:
        raise InvalidSpec("feed.pace", "off", "off only with a duration or a number of events")
    return int(now_ms - min(spans_s) * 1000)
