"""Batches of a stream that keeps up, with and without a savepoint made meanwhile. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean, median
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EVERY_MINUTES: Final = (5, 60)
"""Periods (minutes) with one savepoint each: the shortest that the scheduled DAG keeps, and an hour."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time from ``since_ms`` to ``until_ms`` (epoch)."""

    since_ms: int
    until_ms: int

    @property
    def took_ms(self) -> int:
        """Length of the span (ms)."""
        return self.until_ms - self.since_ms

    def meets(self, other: Span) -> bool:
        """Whether the two spans have a moment in common."""
        return self.since_ms < other.until_ms and other.since_ms < self.until_ms

    def holds(self, other: Span) -> bool:
        """Whether the other span is inside this one."""
        return self.since_ms <= other.since_ms and other.until_ms <= self.until_ms


@dataclass(frozen=True, slots=True)
class Beside:
    """The times of batches during savepoints, and of these savepoints, all in ms."""

    batches_ms: list[int]
    savepoints_ms: list[int]

    def and_those_of(self, other: Beside) -> Beside:
        """Return the times of both."""
        return Beside(self.batches_ms + other.batches_ms, self.savepoints_ms + other.savepoints_ms)

    def compared(self, quiet_ms: Sequence[int]) -> dict[str, Any]:
        """Compare median and p95 with batches without a savepoint.

        Also return the p95 ratio over all batches of each period with one savepoint.
        """
        middle, before = median(quiet_ms), p95(quiet_ms)
        ratios = {"median_ratio": median(self.batches_ms) / middle, "p95_ratio": p95(self.batches_ms) / before}
        for minutes in EVERY_MINUTES:
            share = min(1.0, mean(self.savepoints_ms) / (minutes * 60_000))
            ratios[f"p95_ratio_every_{minutes}_min"] = p95_of_period(quiet_ms, self.batches_ms, share) / before
        return {
            "savepoint_s": round(median(self.savepoints_ms) / 1000, 1),
            "batches": len(self.batches_ms),
            "median_ms": round(median(self.batches_ms)),
            "p95_ms": round(p95(self.batches_ms)),
            **{name: round(ratio, 2) for name, ratio in ratios.items()},
        }


@dataclass(frozen=True, slots=True)
class Taken:
    """The figures of a run: batches (ms) without a savepoint and during each way to make one.

    ``busy_percent`` is the machine's use (%) without a savepoint.
    """

    quiet_ms: list[int]
    beside: dict[str, Beside]
    busy_percent: list[float]

    @classmethod
    def of(
        cls, batches: Iterable[Span], quiet: Sequence[Span], made: Sequence[tuple[str, Span]], busy: list[float]
    ) -> Self:
        """Return the ``batches`` inside a ``quiet`` span, and those that meet the span of a savepoint ``made``."""
        times = list(batches)
        beside: dict[str, Beside] = {}
        for way, span in made:
            found = Beside([batch.took_ms for batch in times if batch.meets(span)], [span.took_ms])
            beside[way] = beside[way].and_those_of(found) if way in beside else found
        return cls(
            [batch.took_ms for batch in times if any(span.holds(batch) for span in quiet)],
            beside,
            busy,
        )

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the figures from the values of their ``asdict``."""
        return cls(
            values["quiet_ms"],
            {way: Beside(**found) for way, found in values["beside"].items()},
            values["busy_percent"],
        )

    def and_those_of(self, other: Taken) -> Taken:
        """Return the figures of both runs."""
        none = Beside([], [])
        ways = {**self.beside, **other.beside}
        return Taken(
            self.quiet_ms + other.quiet_ms,
            {way: self.beside.get(way, none).and_those_of(other.beside.get(way, none)) for way in ways},
            self.busy_percent + other.busy_percent,
        )

    def summary(self) -> dict[str, Any]:
        """Return the medians, the p95 and their ratios."""
        return {
            "busy_percent": round(mean(self.busy_percent)),
            "quiet": {
                "batches": len(self.quiet_ms),
                "median_ms": round(median(self.quiet_ms)),
                "p95_ms": round(p95(self.quiet_ms)),
            },
            "beside": {way: found.compared(self.quiet_ms) for way, found in self.beside.items()},
        }


def quantile(weighted: Iterable[tuple[float, float]], share: float) -> float:
    """Return the smallest value that has ``share`` of the weight at or below it.

    ``weighted`` holds at least one pair (value, weight).
    """
    ordered = sorted(weighted)
    wanted, reached = share * sum(weight for _, weight in ordered), 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= wanted:
            return value
    return ordered[-1][0]


def p95(values: Iterable[float]) -> float:
    """Return the 95th percentile of values of equal weight."""
    return quantile(((value, 1.0) for value in values), 0.95)


def p95_of_period(quiet: Sequence[float], beside: Sequence[float], share: float) -> float:
    """Return the 95th percentile over a period of which ``share`` had a savepoint.

    Each kind of batch counts with its part of the time.
    """
    of_beside = [(value, share / len(beside)) for value in beside]
    return quantile([*of_beside, *((value, (1 - share) / len(quiet)) for value in quiet)], 0.95)
