"""Latency of a session: the time from its end plus its gap to the commit that makes its row readable."""

from __future__ import annotations

import json
import shutil
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq

from sessionizer_bench.contestants.race import Race
from sessionizer_bench.data.live import TIMEOUT_S, LiveFeed
from sessionizer_bench.measuring.runner import run_contestant
from sessionizer_bench.places import RUNS
from sessionizer_bench.workloads import LATENCY, OURS, SESSION_WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

CONTESTANTS: Final = (OURS, SESSION_WINDOW)
LIVE_S: Final = 150
WARM_UP_S: Final = 60
"""Seconds from the first commit in which commits are not counted, because the JVM is cold."""
WATERMARK_DELAY_S: Final = 2


def latency_once(
    contestant: str,
    repetition: int,
    *,
    live_s: int = LIVE_S,
    warm_up_s: int = WARM_UP_S,
    settings: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Run the contestant over a live feed, with further Spark ``settings``, and return its record. Raises RunFailed."""
    folder = RUNS / f"{LATENCY}-{contestant}-{repetition}"
    files = RUNS / f"{LATENCY}-files"
    shutil.rmtree(files, ignore_errors=True)
    race = Race(
        files=files,
        files_per_batch=1_000,
        folder=folder,
        emit_every_s=None,
        key_groups=16,
        watermark_delay_s=WATERMARK_DELAY_S,
        live_s=live_s,
    )
    with LiveFeed(files):
        record = run_contestant(contestant, race, uncounted=warm_up_s // 3, settings=settings)
    seen = latencies(visible(race.table), warm_up_s)
    for used in (folder, files):
        shutil.rmtree(used, ignore_errors=True)
    return {"workload": LATENCY, "repetition": repetition, **record, **seen}


def visible(table: Path) -> Iterator[tuple[float, list[float]]]:
    """Yield each commit with rows, in order: its time, and the ends of its sessions (epoch s)."""
    for commit in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        added = [table / unquote(action["add"]["path"]) for action in actions if "add" in action]
        ends = [end for file in added for end in ends_in(file)]
        if ends:
            yield commit.stat().st_mtime, ends


def ends_in(file: Path) -> list[float]:
    """Return the ends of the sessions in a data file (epoch s)."""
    column = pq.read_table(file, columns=["ended_at"]).column("ended_at")
    return [moment.timestamp() for moment in column.to_pylist()]


def latencies(commits: Iterable[tuple[float, list[float]]], warm_up_s: float) -> dict[str, Any]:
    """Return ``latency_ms_median``, ``latency_ms_p95`` and ``sessions`` of the commits after the warm-up. Pure."""
    found: list[float] = []
    begun: float | None = None
    for at, ends in commits:
        begun = at if begun is None else begun
        if at - begun >= warm_up_s:
            found += [(at - end - TIMEOUT_S) * 1000 for end in ends]
    if len(found) <= 1:
        return {"latency_ms_median": None, "latency_ms_p95": None, "sessions": len(found)}
    return {"latency_ms_median": median(found), "latency_ms_p95": quantiles(found, n=20)[-1], "sessions": len(found)}
