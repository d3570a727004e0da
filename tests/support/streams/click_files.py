"""Realistic clicks in files whose every row is known: what it tells, and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sessionizer_demo.feed.generator import Row, generate_within
from sessionizer_demo.feed.pacing import ticks
from sessionizer_demo.feed.rows.faults import DEFAULT_FAULT_RATES
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.scenario import Bounds, Scenario
from sessionizer_demo.feed.sinks.folder_sink import FolderSink
from sessionizer_demo.feed.traffic.day_curve import DayCurve

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ClickFiles: TypeAlias = "Mapping[str, tuple[Row, ...]]"
"""The rows of each file, by its name."""

START_MS = 1_750_000_000_000
# so many faults that every file has some that the guard refuses, some that are late and some that come twice
FAULTS = {kind: 4 * share for kind, share in DEFAULT_FAULT_RATES.items()} | {RowKind.TRUNCATED: 0.02}


def known_rows(count: int, rate: float = 40.0) -> list[Row]:
    """The first ``count`` rows of a feed with many faults."""
    return list(generate_within(_scenario(rate, count / rate), Bounds(events=count)))


def write_click_files(folder: Path, files: int, *, rate: float = 40.0, file_seconds: int = 10) -> ClickFiles:
    """``files`` files of ``file_seconds`` of simulated time each, written in the order of their names."""
    scenario = _scenario(rate, files * file_seconds)
    sink = FolderSink(folder, "clicks", ".json")
    rows = generate_within(scenario, Bounds(duration_s=files * file_seconds))
    written: dict[str, tuple[Row, ...]] = {}
    for tick in ticks(rows, scenario.start_ms, file_seconds * 1000):
        sink.write(tick)
        written[f"clicks-{tick.number:08d}.json"] = tick.rows
    return written


def _scenario(rate: float, seconds: float) -> Scenario:
    return Scenario(
        start_ms=START_MS,
        rate=rate,
        watermark_delay_ms=10_000,
        faults=FAULTS,
        day=DayCurve(day_seconds=seconds, depth=0.3),
    )
