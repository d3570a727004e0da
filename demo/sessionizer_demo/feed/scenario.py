"""The scenario of a feed, which decides its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sessionizer.errors import InvalidSpec
from sessionizer_demo.feed.rows.faults import DEFAULT_FAULT_RATES
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.rows.row_formats import ROW_FORMATS, RowFormat
from sessionizer_demo.feed.traffic.clients import CLIENTS, Client
from sessionizer_demo.feed.traffic.day_curve import DayCurve

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The input of a feed. Equal scenarios give equal rows, byte for byte.

    ``start_ms`` (epoch ms) is the event time of the beginning. ``rate`` is in events per second, averaged over a day.
    ``faults`` maps a kind to its share of all rows. Kinds that the stream's format cannot show are omitted.
    ``watermark_delay_ms`` should be the stream's delay, because it divides late rows from rows that are too late.
    Raises InvalidSpec for a value with which no feed can run.
    """

    start_ms: int
    stream: str = "clicks"
    seed: int = 7
    rate: float = 100.0
    day: DayCurve = field(default_factory=lambda: DayCurve(day_seconds=1200, depth=0.6))
    watermark_delay_ms: int = 30_000
    faults: Mapping[RowKind, float] = field(default_factory=lambda: dict(DEFAULT_FAULT_RATES))
    clients: tuple[Client, ...] = CLIENTS
    never_ending_user: bool = True

    def __post_init__(self) -> None:
        _demand(self.stream in ROW_FORMATS, "stream", self.stream, " or ".join(ROW_FORMATS))
        _demand(self.rate > 0, "rate", self.rate, "more than 0 events per second")
        _demand(self.day.day_seconds > 0, "day_seconds", self.day.day_seconds, "more than 0 seconds")
        _demand(0 <= self.day.depth < 1, "depth", self.day.depth, "0 or more, less than 1")
        _demand(self.watermark_delay_ms >= 0, "watermark_delay_ms", self.watermark_delay_ms, "0 or more milliseconds")
        _demand(bool(self.clients), "clients", self.clients, "at least one client")
        _demand(RowKind.NORMAL not in self.faults, "faults", "normal", "any other kind: normal is what is left")
        for kind, share in self.faults.items():
            _demand(0 <= share <= 1, f"faults.{kind}", share, "a share of the rows from 0 to 1")
        total = sum(self.faults.values())
        _demand(total <= 1 + 1e-9, "faults", total, "shares that sum up to at most 1")

    @property
    def row_format(self) -> RowFormat:
        """The format of the stream's rows."""
        return ROW_FORMATS[self.stream]

    @property
    def possible_faults(self) -> dict[RowKind, float]:
        """The faults that the stream's format can show, with their shares."""
        return {kind: share for kind, share in self.faults.items() if kind in self.row_format.kinds}


def _demand(condition: bool, name: str, value: object, allowed: str) -> None:  # noqa: FBT001
    if not condition:
        raise InvalidSpec(f"feed.{name}", value, allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The end of a feed: after ``duration_s`` seconds of simulated time or ``events`` rows, the earlier of both.

    None is no bound. Without any bound the feed is endless. Raises InvalidSpec for a bound that is not more than 0.
    """

    duration_s: float | None = None
    events: int | None = None

    def __post_init__(self) -> None:
        if self.duration_s is not None and self.duration_s <= 0:
            raise InvalidSpec("feed.duration", self.duration_s, "more than 0 seconds")
        if self.events is not None and self.events <= 0:
            raise InvalidSpec("feed.events", self.events, "more than 0 events")


def start_in_the_past(now_ms: float, least_rate: float, bounds: Bounds) -> int:
    """Return the start (epoch ms) of a feed that is played at once, so that no event is later than ``now_ms``.

    ``least_rate`` is in events per second. A feed bounded by events is assumed to run at this rate all the time. Raises
    InvalidSpec if the feed has no bounds, or ``least_rate`` is not more than 0 for a feed bounded by events.
    """
    spans_s = [] if bounds.duration_s is None else [bounds.duration_s]
    if bounds.events is not None:
        if least_rate <= 0:
            raise InvalidSpec("feed.rate", least_rate, "more than 0 events per second")
        spans_s.append(bounds.events / least_rate)
    if not spans_s:
        raise InvalidSpec("feed.pace", "off", "off only with a duration or a number of events")
    return int(now_ms - min(spans_s) * 1000)
