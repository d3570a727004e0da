"""The share of each executor in the work, from Spark's own event log. Pure.

A partition of the state belongs to the executor of its last batch, because Spark sends its task to the executor that
has it already.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sessionizer.core.wire.schema import group_labels, spark_hash
from sessionizer_bench.measuring.event_log import BATCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

OF_STATE: Final = "number of updated state rows"
"""Spark's name of a metric that only tasks with state have."""


@dataclass(slots=True)
class Share:
    """An executor's share: its tasks, the bytes they shuffled, ms of their run time, and its part of the state."""

    tasks: int = 0
    stateful_tasks: int = 0
    run_ms: int = 0
    shuffle_read_bytes: int = 0
    shuffle_written_bytes: int = 0
    state_partitions: int = 0
    open_sessions: int = 0


@dataclass(slots=True)
class Reading:
    """The contents of a log: shares by executor, and the last executor of each partition of the state."""

    shares: dict[str, Share] = field(default_factory=lambda: defaultdict(Share))
    state: dict[int, str] = field(default_factory=dict)
    stateful_moves: int = 0


def shares(
    events: Iterable[dict[str, Any]], first_batch: int, open_of_group: Sequence[int], partitions: int
) -> Reading:
    """Return the shares of executors in the tasks of ``first_batch`` and later batches.

    ``open_of_group`` holds the open sessions by number of the key group. An executor without a task has an empty
    share.
    """
    reading, counted = Reading(), set[int]()
    for event in events:
        match event["Event"]:
            case "SparkListenerExecutorAdded":
                reading.shares.setdefault(event["Executor ID"], Share())
            case "SparkListenerJobStart":
                batch = (event.get("Properties") or {}).get(BATCH)
                if batch is not None and int(batch) >= first_batch:
                    counted |= set(event["Stage IDs"])
            case "SparkListenerTaskEnd" if event["Stage ID"] in counted and event.get("Task Metrics"):
                _count(reading, event)
    _place(reading, open_of_partition(open_of_group, partitions))
    return reading


def _count(reading: Reading, event: dict[str, Any]) -> None:
    info, metrics = event["Task Info"], event["Task Metrics"]
    share = reading.shares[info["Executor ID"]]
    share.tasks += 1
    share.run_ms += metrics["Executor Run Time"]
    read = metrics["Shuffle Read Metrics"]
    share.shuffle_read_bytes += read["Remote Bytes Read"] + read["Local Bytes Read"]
    share.shuffle_written_bytes += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
    if any(one.get("Name") == OF_STATE for one in info["Accumulables"]):
        share.stateful_tasks += 1
        partition = info["Partition ID"]
        before = reading.state.get(partition)
        reading.stateful_moves += before is not None and before != info["Executor ID"]
        reading.state[partition] = info["Executor ID"]


def _place(reading: Reading, open_in: Mapping[int, int]) -> None:
    for partition, executor in reading.state.items():
        share = reading.shares[executor]
        share.state_partitions += 1
        share.open_sessions += open_in[partition]


def open_of_partition(open_of_group: Sequence[int], partitions: int) -> dict[int, int]:
    """Return the open sessions of each partition. The hash of a group's label gives its partition."""
    summed = dict.fromkeys(range(partitions), 0)
    places = spark_hash(group_labels(len(open_of_group))) % partitions
    for place, count in zip(places.tolist(), open_of_group, strict=True):
        summed[place] += count
    return summed


def furthest_from_even(values: Iterable[float]) -> float:
    """Return the largest deviation of a value from the mean, as a part of the mean, or 0 if all values are 0."""
    found = list(values)
    mean = sum(found) / len(found)
    return max(abs(value - mean) for value in found) / mean if mean else 0.0
