"""Figures of a soak: what a driver and its files use, the slopes of that over time, and rows lost or doubled."""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from support.expected.landed import Landed


def count_files(roots: Mapping[str, Path]) -> dict[str, float]:
    """Count the files below each root, by the folder in it."""
    counts: Counter[str] = Counter()
    for name, root in roots.items():
        for folder, _, files in os.walk(root):
            counts["/".join((name, *Path(folder).relative_to(root).parts[:1]))] += len(files)
    return {f"files {name}": count for name, count in counts.items()}


def use_of(parts: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Sum resident MB, descriptors and threads of each part of a driver, and tell its age in s.

    ``parts``: the numbers of their processes.
    """
    found: Counter[str] = Counter()
    for part, pids in parts.items():
        for pid in pids:
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                found[f"{part} MB"] += process.memory_info().rss // 2**20
                found[f"{part} descriptors"] += process.num_fds()
                found[f"{part} threads"] += process.num_threads()
                found["age_s"] = max(found["age_s"], round(time.time() - process.create_time()))
    return dict(found)


def compare_tables(wanted: Landed, there: Landed) -> dict[str, dict[str, Any]]:
    """Count the rows of each table that are lost, doubled, or none of those wanted."""
    found = {}
    for name in ("sessions", "late", "quarantine"):
        expected, rows = getattr(wanted, name), getattr(there, name)
        missing, extra = expected - rows, rows - expected
        doubled = sum(count for row, count in extra.items() if expected[row])
        found[name] = {
            "expected": expected.total(),
            "lost": missing.total(),
            "doubled": doubled,
            "others": extra.total() - doubled,
            "examples": [str(row)[:400] for row in (*list(missing)[:3], *list(extra)[:3])],
        }
    return found


def slopes(samples: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return, of each figure, its medians in the first and last quarter, and its slope an hour as part of its mean."""
    found = {}
    for name in sorted({name for sample in samples for name in sample} - {"at", "batch_id", "age_s"}):
        points = [(sample["at"] / 3_600_000, sample[name]) for sample in samples if name in sample]
        quarter = len(points) // 4
        if not quarter:
            continue
        hours, values = zip(*points, strict=True)
        mean = statistics.fmean(values)
        slope = statistics.linear_regression(hours, values).slope
        found[name] = {
            "first": statistics.median(values[:quarter]),
            "last": statistics.median(values[-quarter:]),
            "an_hour": round(slope, 2),
            "share_of_mean": round(slope / mean, 3) if mean else 0.0,
        }
    return found
