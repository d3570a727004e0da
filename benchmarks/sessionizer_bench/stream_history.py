"""The cost of a stream's history: the driver's time for each batch, and the bytes of a week on disk.

Batches follow each other every second for an hour of the stream's clock, after a week of history. No Spark.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sessionizer.control.history.files import HistoryWriter, read_history
from sessionizer.control.history.sample import SAMPLE_MS
from sessionizer.home.clock import HOUR
from sessionizer.home.stream_home import StreamHome
from support.processes.fabricated_fleet import STEADY, work
from support.processes.fabricated_platform import Platform

PROMISED_SHARE: Final = 0.01
PROMISED_BYTES: Final = 5_000_000
BATCH_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Cost:
    """The share of a driver's time with a batch a second, the us of a batch, and the bytes of a week."""

    share: float
    batch_us: float
    week_bytes: int


def measure(batches: int = HOUR // BATCH_MS) -> Cost:
    """Write a week of history, then add so many batches to the hour after it."""
    with TemporaryDirectory() as folder:
        (specs := Path(folder) / "specs").mkdir()
        platform = Platform(Path(folder) / "home", specs)
        platform.add("clicks")
        hour = time.time_ns() // 1_000_000 // HOUR * HOUR
        work(platform, "clicks", STEADY, hour - 1)
        home = StreamHome.of(platform.home, "clicks")
        week = sum(file.stat().st_size for file in Path(str(home.history)).iterdir())
        newest = read_history(home, hour - SAMPLE_MS, hour, with_marks=False).samples[-1]
        writer = HistoryWriter(home)
        begun = time.perf_counter()
        for batch in range(batches):
            writer.add(replace(newest, at=hour + batch * BATCH_MS, batches=1))
        took = time.perf_counter() - begun
        return Cost(took * 1000 / (batches * BATCH_MS), took * 1e6 / batches, week)


def lines(found: Cost) -> list[str]:
    """Return the figures in words."""
    share = f"{found.share:.2%} of the driver's time with a batch a second (at most {PROMISED_SHARE:.0%})"
    return [
        f"history: {share}, {found.batch_us:,.0f} us a batch",
        f"history of a week: {found.week_bytes:,} bytes (at most {PROMISED_BYTES:,})",
    ]
