"""What the benchmark measures, from what it is given to see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sessionizer_bench.measuring.batches import parse_batches, rate, summary
from sessionizer_bench.measuring.checkpoint_bytes import SeenFile, WrittenBytes, files_below
from sessionizer_bench.measuring.event_log import BATCH, stages
from sessionizer_bench.measuring.machine import CpuTimes, shares
from sessionizer_bench.measuring.process_tree import Process, TreeUse, descendants
from sessionizer_bench.stream_history import PROMISED_BYTES, measure

if TYPE_CHECKING:
    from pathlib import Path


def progress(batch: int, second: float, took_ms: int, rows: int) -> dict[str, object]:
    return {
        "batchId": batch,
        "timestamp": f"2025-01-01T00:00:{second:06.3f}Z",
        "durationMs": {"addBatch": took_ms - 10, "triggerExecution": took_ms},
        "sources": [{"numInputRows": rows}],
        "stateOperators": [],
    }


UPDATES = [
    progress(0, 0, 5000, 100),
    progress(1, 5.5, 1000, 100),
    progress(2, 6.5, 2000, 100),
    progress(3, 8.5, 500, 0),
]


def test_steady_rate_runs_from_the_end_of_the_last_uncounted_batch() -> None:
    # 200 events from second 5.0 to second 8.5: the pause before batch 1 counts
    assert rate(parse_batches(UPDATES)[:3], skip=1) == pytest.approx(200 / 3.5)


def test_rate_from_cold_runs_from_the_start_of_the_first_batch() -> None:
    assert rate(parse_batches(UPDATES)[:3], skip=0) == pytest.approx(300 / 8.5)


def test_first_batch_is_never_steady_and_a_batch_without_data_is_no_batch() -> None:
    found = summary(parse_batches(UPDATES), uncounted=0)
    assert found["batch_ms"] == [1000, 2000]
    assert found["batch_ms_mean"] == 1500
    assert found["phases_ms"] == {"addBatch": 1490, "triggerExecution": 1500}


def test_idle_progress_is_not_a_batch() -> None:
    idle = {**progress(2, 9, 5, 0), "durationMs": {"latestOffset": 1, "triggerExecution": 5}}
    assert [batch["id"] for batch in parse_batches([*UPDATES[:2], idle])] == [0, 1]


def test_written_bytes_survive_deletion_and_count_growth_and_replacement() -> None:
    written = WrittenBytes()
    written.look([SeenFile("a", 1, 10), SeenFile("b", 2, 5)])
    written.look([SeenFile("a", 1, 12)])
    written.look([SeenFile("a", 3, 7)])
    assert written.total == 10 + 5 + 2 + 7


def test_written_bytes_see_a_file_once() -> None:
    written = WrittenBytes()
    for _ in range(3):
        written.look([SeenFile("a", 1, 10)])
    assert written.total == 10


def test_temporary_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "1.delta").write_bytes(b"123")
    (tmp_path / "state" / ".2.delta.tmp").write_bytes(b"12345")
    assert [(file.path, file.size) for file in files_below(tmp_path)] == [(f"{tmp_path}/state/1.delta", 3)]


def test_nothing_is_written_before_the_checkpoint_exists(tmp_path: Path) -> None:
    assert list(files_below(tmp_path / "nowhere")) == []


def test_a_tree_is_a_process_and_all_below_it() -> None:
    processes = [
        Process(1, 0, 0, 0),
        Process(5, 2, 0, 0),
        Process(2, 1, 0, 0),
        Process(9, 1, 0, 0),
        Process(6, 5, 0, 0),
    ]
    assert {process.pid for process in descendants(2, processes)} == {2, 5, 6}


def test_peak_memory_is_of_one_moment_and_processor_time_of_all_that_lived() -> None:
    use = TreeUse(1)
    use.sample([Process(1, 0, 100, 10), Process(2, 1, 50, 5)])
    use.sample([Process(1, 0, 120, 20), Process(3, 1, 10, 1)])
    assert use.peak_resident == 150
    assert use.ticks == 20 + 5 + 1


def test_shares_tell_others_from_ourselves() -> None:
    before = CpuTimes.of("cpu 100 0 0 100 0 0 0 0 0 0")
    after = CpuTimes.of("cpu 180 0 10 100 0 0 0 10 0 0")
    assert shares(before, after, own_ticks=60) == {"steal_percent": 10.0, "own_percent": 60.0, "others_percent": 30.0}


def test_stages_belong_to_the_batch_of_their_job() -> None:
    info: dict[str, Any] = {
        "Stage ID": 7, "Stage Name": "save at NativeMethod.java:0", "Number of Tasks": 2,
        "Submission Time": 1000, "Completion Time": 1400,
        "Accumulables": [
            {"Name": "internal.metrics.executorRunTime", "Value": 700},
            {"Name": "internal.metrics.executorCpuTime", "Value": "50000000"},
            {"Name": "time to execute Python code", "Value": "123"},
            {"Name": "internal.metrics.updatedBlockStatuses", "Value": []},
        ],
    }  # fmt: skip
    log: list[dict[str, Any]] = [
        {"Event": "SparkListenerJobStart", "Stage IDs": [7], "Properties": {BATCH: "4"}},
        {"Event": "SparkListenerStageCompleted", "Stage Info": info},
        {"Event": "SparkListenerStageCompleted", "Stage Info": {**info, "Stage ID": 8}},
    ]
    (stage,) = stages(log)
    assert (stage.batch, stage.name, stage.wall_ms, stage.run_ms, stage.cpu_ms) == (4, "save", 400, 700, 50)
    assert stage.metrics == {"time to execute Python code": 123}


def test_a_week_of_history_is_as_small_as_promised() -> None:
    found = measure(batches=20)
    assert found.batch_us > 0
    assert PROMISED_BYTES // 10 < found.week_bytes <= PROMISED_BYTES
