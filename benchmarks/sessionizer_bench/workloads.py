"""The workloads: data sets, their contestants, and the batches that count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sessionizer_bench.data.dataset import Dataset, Traffic

OURS: Final = "ours"
OURS_PLAIN: Final = "ours_plain"
"""Our query without the private parts of Spark and Delta (docs/adr/0070)."""
OURS_FEED: Final = "ours_change_feed"
"""Our query into tables with a change feed (``sink.change_feed``)."""
OURS_IDLE: Final = "ours_idle"
"""Our query with a core that does nothing: no core behind the same pipeline is faster."""
SESSION_WINDOW: Final = "session_window"
PASS_THROUGH: Final = "pass_through"  # noqa: S105  no password
PER_USER: Final = "per_user"
FLINK: Final = "flink"
FLINK_COUNTS: Final = "flink_counts"
"""Flink without the events of a session."""
LATENCY: Final = "latency"
"""Name of runs over a live feed, which are recorded like a workload."""
CONTESTANTS: Final = (OURS, SESSION_WINDOW, FLINK, FLINK_COUNTS, PER_USER, PASS_THROUGH, OURS_PLAIN, OURS_IDLE)
"""All contestants, in the order in which they take turns."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A data set and its contestants.

    ``emit_every_s`` is our step of emission, in seconds of event time. ``only_first`` maps a contestant to the number
    of measured batches it gets, if all of them would take it too long.
    """

    name: str
    title: str
    dataset: Dataset
    contestants: tuple[str, ...]
    emit_every_s: int = 30
    only_first: tuple[tuple[str, int], ...] = ()


BUSY: Final = Traffic(users=100_000, events_per_second=2_000, mean_gap_s=10, timeouts_s=(30, 45, 60))
"""Traffic with about 35,000 sessions open at a time. A batch of 200,000 events spans 100 s."""

PATIENT: Final = Traffic(users=3_000_000, events_per_second=3_600, mean_gap_s=250, timeouts_s=(900, 1_200, 1_800))
"""Traffic with about a million sessions open at a time. A batch of 40,000 events spans 11 s."""

LARGE: Final = Workload(
    name="large",
    title="2 M events of 100 k users, 200 k-event batches",
    dataset=Dataset("large", batch_events=200_000, batches=10, traffic=BUSY, warm_up_batches=5),
    contestants=CONTESTANTS,
    only_first=((PER_USER, 3),),
)
STEADY: Final = replace(
    LARGE,
    name="steady",
    title="4 M events of 100 k users in a JVM of a minute, 200 k-event batches",
    dataset=replace(LARGE.dataset, name="steady", batches=20, warm_up_batches=25),
    contestants=(OURS, OURS_PLAIN, OURS_FEED),
    only_first=(),
)
"""Workload for the cost of plain Spark, and of a change feed, in a stream that runs on.

Plain Spark runs more code, so the JVM has more to compile at first.
"""
REDELIVERED: Final = replace(
    LARGE,
    name="redelivered",
    title="2 M events in 200 k-event batches, every one sent twice",
    dataset=replace(LARGE.dataset, name="redelivered", sent_twice=True),
    contestants=(OURS, PASS_THROUGH, OURS_PLAIN),
    only_first=(),
)
SMALL: Final = Workload(
    name="small",
    title="40 k-event batches over 1 M open sessions",
    dataset=Dataset("small", batch_events=40_000, batches=60, traffic=PATIENT, warm_up_batches=10, history_events=3),
    contestants=(OURS, SESSION_WINDOW, PASS_THROUGH, OURS_PLAIN, OURS_IDLE),
    emit_every_s=120,
)
_GROWTH: Final = Dataset(
    name="growth",
    batch_events=40_000,
    batches=40,
    traffic=BUSY,
    warm_up_batches=20,
    background_awake=100_000,
    background_share=0.3,
)
GROWTH_LEVELS: Final = (100_000, 400_000, 1_000_000)


def growth(level: int, dataset: Dataset = _GROWTH) -> Workload:
    """Return the workload of the same measured batches over ``level`` sessions that stay open."""
    return Workload(
        name=f"growth-{level // 1000}k",
        title=f"40 k-event batches over {level // 1000} k sessions that stay open",
        dataset=replace(dataset, name=f"growth-{level // 1000}k", background=level),
        contestants=(OURS, SESSION_WINDOW, OURS_PLAIN),
        emit_every_s=120,
    )


def full() -> tuple[Workload, ...]:
    """Return the workloads of ``make bench``."""
    return (LARGE, STEADY, REDELIVERED, SMALL, *(growth(level) for level in GROWTH_LEVELS))


def quick() -> tuple[Workload, ...]:
    """Return the same workloads at a twentieth of the size and less, which only show that everything works.

    Their figures mean nothing.
    """
    busy, patient = replace(BUSY, users=5_000, events_per_second=100), replace(PATIENT, events_per_second=60)
    large = replace(LARGE.dataset, batch_events=10_000, batches=3, traffic=busy, warm_up_batches=1)
    small = replace(SMALL.dataset, batch_events=2_000, batches=4, traffic=patient, warm_up_batches=1)
    grown = replace(_GROWTH, batch_events=2_000, batches=4, traffic=busy, warm_up_batches=1, background_awake=1_000)
    return (
        replace(LARGE, title="Quick: large", dataset=replace(large, name="quick-large"), only_first=((PER_USER, 2),)),
        replace(STEADY, title="Quick: steady", dataset=replace(large, name="quick-steady")),
        replace(
            REDELIVERED,
            title="Quick: redelivered",
            dataset=replace(large, name="quick-redelivered", sent_twice=True),
        ),
        replace(SMALL, title="Quick: small", dataset=replace(small, name="quick-small")),
        growth(2_000, grown),
        growth(10_000, grown),
    )
