"""The promises of the product, each with the figure that shows whether it is kept. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer_bench.reporting.figures import Record, growth_ratio, ratio, typical, workload_runs
from sessionizer_bench.workloads import (
    GROWTH_LEVELS,
    LARGE,
    LATENCY,
    OURS,
    OURS_PLAIN,
    PASS_THROUGH,
    REDELIVERED,
    SESSION_WINDOW,
    SMALL,
    STEADY,
    growth,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RATE: Final = "events_per_second"
STARTUP: Final = "startup"
"""Name of the starts of the real driver, which are recorded like a workload."""


@dataclass(frozen=True, slots=True)
class Target:
    """A promise: a figure and its lower or upper bound.

    ``measured`` returns the figure, or None if its runs are missing.
    """

    text: str
    measured: Callable[[list[Record]], float | None]
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "×"

    def met(self, figure: float) -> bool:
        """Whether ``figure`` keeps the promise."""
        if self.at_least is not None:
            return figure >= self.at_least
        return self.at_most is None or figure <= self.at_most

    @property
    def wanted(self) -> str:
        """The bound as text."""
        return f"≥ {self.at_least:g} {self.unit}" if self.at_least is not None else f"≤ {self.at_most:g} {self.unit}"


def targets(levels: tuple[int, ...] = GROWTH_LEVELS) -> tuple[Target, ...]:
    """Return all promises.

    ``levels`` are numbers of open sessions. The batch times at the first and the last are compared.
    """
    low, high = (growth(level).name for level in (levels[0], levels[-1]))
    return (
        Target("2 M events, 200 k batches: rate against pass-through", _rate(LARGE.name, PASS_THROUGH), at_least=0.8),
        Target("the same against session_window", _rate(LARGE.name, SESSION_WINDOW), at_least=1.5),
        Target("the same without what is private in Spark: rate against ours", _plain(LARGE.name), at_least=0.8),
        Target("the same in a JVM of a minute", _plain(STEADY.name), at_least=0.8),
        Target("every event sent twice: rate against pass-through, beside that without", _redelivered, at_least=0.5),
        Target(
            "40 k batches over 1 M open sessions: rate against session_window",
            _rate(SMALL.name, SESSION_WINDOW),
            at_least=1.5,
        ),
        Target(
            "the same: bytes written to the checkpoint against session_window",
            lambda records: ratio(records, SMALL.name, "checkpoint_written_bytes", OURS, SESSION_WINDOW),
            at_most=1.0,
        ),
        Target(
            "mean batch time, from the fewest to the most open sessions",
            lambda records: growth_ratio(records, "batch_ms_mean", OURS, low, high),
            at_most=1.3,
        ),
        Target("100 events/s: median delay of a session, against session_window", _latency("median"), at_most=1),
        Target("the same, 95th percentile", _latency("p95"), at_most=1),
        Target(
            "start of the driver to its first committed batch",
            lambda records: typical(workload_runs(records, STARTUP).get(OURS, []), "start_to_first_batch_s"),
            at_most=25,
            unit="s",
        ),
    )


def _plain(workload: str) -> Callable[[list[Record]], float | None]:
    return lambda records: ratio(records, workload, RATE, OURS_PLAIN, OURS)


def _redelivered(records: list[Record]) -> float | None:
    once, twice = (ratio(records, name, RATE, OURS, PASS_THROUGH) for name in (LARGE.name, REDELIVERED.name))
    return twice / once if once and twice else None


def _latency(which: str) -> Callable[[list[Record]], float | None]:
    return lambda records: ratio(records, LATENCY, f"latency_ms_{which}", OURS, SESSION_WINDOW)


def _rate(workload: str, peer: str) -> Callable[[list[Record]], float | None]:
    return lambda records: ratio(records, workload, RATE, OURS, peer)
