"""What each executor did, read from an event log."""

from __future__ import annotations

from typing import Any

import pytest

from sessionizer_bench.measuring.event_log import BATCH
from sessionizer_bench.measuring.executor_shares import STATE_ROWS, furthest_from_even, open_of_partition, shares


def job(batch: int, *stages: int) -> dict[str, Any]:
    return {"Event": "SparkListenerJobStart", "Properties": {BATCH: str(batch)}, "Stage IDs": list(stages)}


def task(stage: int, executor: str, partition: int, state_rows: int | None = None) -> dict[str, Any]:
    metrics = {
        "Executor Run Time": 10,
        "Shuffle Read Metrics": {"Remote Bytes Read": 1, "Local Bytes Read": 2},
        "Shuffle Write Metrics": {"Shuffle Bytes Written": 5},
    }
    accumulables = [] if state_rows is None else [{"Name": STATE_ROWS, "Update": str(state_rows)}]
    info = {"Executor ID": executor, "Partition ID": partition, "Accumulables": accumulables}
    return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Info": info, "Task Metrics": metrics}


LOG: list[dict[str, Any]] = [
    *({"Event": "SparkListenerExecutorAdded", "Executor ID": number} for number in "012"),
    {"Event": "SparkListenerJobStart", "Properties": None, "Stage IDs": [0]},
    task(0, "0", 0),
    job(0, 1),
    task(1, "0", 0, state_rows=7),
    job(1, 2),
    task(2, "0", 0, state_rows=8),
    task(2, "1", 1, state_rows=3),
    job(2, 3),
    task(3, "1", 0, state_rows=9),
    task(3, "1", 1, state_rows=4),
]


def test_only_tasks_of_the_batches_that_count_are_counted_and_an_idle_executor_is_one() -> None:
    found = shares(LOG, 1, [10, 20], 2).shares
    assert {executor: share.tasks for executor, share in found.items()} == {"0": 1, "1": 3, "2": 0}
    assert (found["1"].shuffle_read_bytes, found["1"].shuffle_written_bytes, found["1"].run_ms) == (9, 15, 30)


def test_the_state_is_where_its_last_task_was() -> None:
    reading = shares(LOG, 1, [10, 20], 2)
    assert reading.stateful_moves == 1
    share = reading.shares["1"]
    assert (share.state_partitions, share.state_rows, share.open_sessions) == (2, 13, 30)
    assert reading.shares["0"].state_partitions == 0


@pytest.mark.parametrize(("partitions", "most"), [(4, 4), (8, 2), (5, 5), (200, 2)])
def test_groups_are_spread_over_partitions_as_spark_does(partitions: int, most: int) -> None:
    found = open_of_partition([1] * 16, partitions)
    assert (len(found), sum(found.values()), max(found.values())) == (partitions, 16, most)


def test_how_uneven_shares_are() -> None:
    assert furthest_from_even([10, 10, 13]) == pytest.approx(2 / 11)
    assert furthest_from_even([0, 0]) == 0
