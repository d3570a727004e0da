"""Batches as Spark reports them, and their rates. Pure."""

from __future__ import annotations

from datetime import datetime
from statistics import mean, median
from typing import Any

Batch = dict[str, Any]
"""A batch with data: id, rows, started_ms, ended_ms (epoch), durations_ms, state_bytes."""


def parse_batches(updates: list[dict[str, Any]]) -> list[Batch]:
    """Return the batches among Spark's progress updates, in order. Batches without new data have 0 rows."""
    batches = {update["batchId"]: update for update in updates if "addBatch" in update["durationMs"]}
    return [_batch(batches[number]) for number in sorted(batches)]


def _batch(update: dict[str, Any]) -> Batch:
    started_ms = round(datetime.fromisoformat(update["timestamp"]).timestamp() * 1000)
    state = update["stateOperators"][0] if update["stateOperators"] else {}
    metrics = state.get("customMetrics", {})
    return {
        "id": update["batchId"],
        "rows": update["sources"][0]["numInputRows"],
        "started_ms": started_ms,
        "ended_ms": started_ms + update["durationMs"]["triggerExecution"],
        "durations_ms": update["durationMs"],
        "state_bytes": metrics.get("rocksdbSstFileSize", 0),
        "state_metrics": metrics,
    }


def drop_empty_batches(batches: list[Batch]) -> list[Batch]:
    """Return the batches that brought events. The last batch may only close sessions."""
    return [batch for batch in batches if batch["rows"]]


def rate(batches: list[Batch], skip: int) -> float | None:
    """Return the events per second of wall time, or None if no batch counts.

    The time runs from the end of the batch before the first counted one to the end of the last. ``skip`` batches are
    not counted. With 0 the time starts with the first batch.
    """
    counted = batches[skip:]
    if not counted:
        return None
    begin_ms = batches[skip - 1]["ended_ms"] if skip else batches[0]["started_ms"]
    took_ms: int = counted[-1]["ended_ms"] - begin_ms
    return float(sum(batch["rows"] for batch in counted) * 1000 / took_ms)


def summary(batches: list[Batch], uncounted: int) -> dict[str, Any]:
    """Return the rates and batch times (ms) of a run in its steady state, and the rate with the cold JVM's batches.

    ``uncounted`` is the number of batches before the steady state. The first batch never counts.
    """
    counted = drop_empty_batches(batches)
    skip = max(uncounted, 1)
    steady = counted[skip:]
    times = [batch["ended_ms"] - batch["started_ms"] for batch in steady]
    return {
        "events_per_second": rate(counted, skip),
        "events_per_second_from_cold": rate(counted, 0),
        "batch_ms_mean": mean(times) if times else None,
        "batch_ms_median": median(times) if times else None,
        "batch_ms": times,
        "phases_ms": mean_phases(steady),
        "first_batch_ms": counted[0]["ended_ms"] - counted[0]["started_ms"],
        "state_bytes": counted[-1]["state_bytes"],
    }


def mean_phases(batches: list[Batch]) -> dict[str, int]:
    """Return the mean ms of each phase of a trigger, by Spark's name of the phase."""
    names = {name for batch in batches for name in batch["durations_ms"]}
    return {name: round(mean(batch["durations_ms"].get(name, 0) for batch in batches)) for name in sorted(names)}
