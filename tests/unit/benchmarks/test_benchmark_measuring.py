"""What the benchmark measures, from what it is given to see."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sessionizer_bench import command
from sessionizer_bench.contestants import flink
from sessionizer_bench.contestants.race import Race
from sessionizer_bench.data import texts, visits
from sessionizer_bench.data.dataset import Dataset, Traffic
from sessionizer_bench.data.generator import StoredDataset, only_first, stored
from sessionizer_bench.measuring.batches import parse_batches, rate, summary
from sessionizer_bench.measuring.checkpoint_bytes import SeenFile, WrittenBytes, files_below
from sessionizer_bench.measuring.event_log import BATCH, stages
from sessionizer_bench.measuring.machine import CpuTimes, shares
from sessionizer_bench.measuring.process_tree import Process, TreeUse, descendants
from sessionizer_bench.stream_history import PROMISED_BYTES, measure
from sessionizer_bench.tournament import Choices, turns
from sessionizer_bench.workloads import GROWTH_LEVELS, LARGE, full, growth


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


def test_a_rate_runs_from_the_end_of_the_last_uncounted_batch_or_the_start_of_the_first() -> None:
    # 200 events from second 5.0 to second 8.5: the pause before batch 1 counts
    assert rate(parse_batches(UPDATES)[:3], skip=1) == pytest.approx(200 / 3.5)
    assert rate(parse_batches(UPDATES)[:3], skip=0) == pytest.approx(300 / 8.5)


def test_first_batch_is_never_steady_and_a_batch_without_data_is_no_batch() -> None:
    found = summary(parse_batches(UPDATES), uncounted=0)
    assert found["batch_ms"] == [1000, 2000]
    assert found["batch_ms_mean"] == 1500
    assert found["phases_ms"] == {"addBatch": 1490, "triggerExecution": 1500}
    idle = {**progress(2, 9, 5, 0), "durationMs": {"latestOffset": 1, "triggerExecution": 5}}
    assert [batch["id"] for batch in parse_batches([*UPDATES[:2], idle])] == [0, 1], "nor is progress without a batch"


def test_written_bytes_survive_deletion_and_count_growth_and_replacement() -> None:
    written = WrittenBytes()
    for _ in range(3):
        written.look([SeenFile("a", 1, 10), SeenFile("b", 2, 5)])
    written.look([SeenFile("a", 1, 12)])
    written.look([SeenFile("a", 3, 7)])
    assert written.total == 10 + 5 + 2 + 7


def test_temporary_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "1.delta").write_bytes(b"123")
    (tmp_path / "state" / ".2.delta.tmp").write_bytes(b"12345")
    assert [(file.path, file.size) for file in files_below(tmp_path)] == [(f"{tmp_path}/state/1.delta", 3)]
    assert list(files_below(tmp_path / "nowhere")) == [], "before the checkpoint exists"


def test_a_tree_is_a_process_and_all_below_it() -> None:
    processes = [Process(pid, parent, 0, 0) for pid, parent in ((1, 0), (5, 2), (2, 1), (9, 1), (6, 5))]
    assert {process.pid for process in descendants(2, processes)} == {2, 5, 6}


def test_peak_memory_is_of_one_moment_and_processor_time_of_all_that_lived() -> None:
    use = TreeUse(1)
    use.sample([Process(1, 0, 100, 10), Process(2, 1, 50, 5)])
    use.sample([Process(1, 0, 120, 20), Process(3, 1, 10, 1)])
    assert use.peak_resident == 150
    assert use.ticks == 20 + 5 + 1


def test_the_memory_of_a_jvm_that_starts_a_program_counts_once_and_that_of_forked_workers_each_time() -> None:
    jvm, worker = "/usr/bin/java\0-Xmx2g", "python\0-m\0pyspark.daemon"
    use = TreeUse(1)
    use.sample([Process(1, 0, 100, 1, jvm), Process(2, 1, 100, 0, jvm)])
    assert use.peak_resident == 100
    use.sample([Process(1, 0, 100, 1, jvm), Process(3, 1, 10, 0, worker), Process(4, 3, 10, 0, worker)])
    assert use.peak_resident == 120


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


TRAFFIC = Traffic(users=500, events_per_second=50, mean_gap_s=10, timeouts_s=(30, 60))
SMALL = Dataset("tiny", batch_events=500, batches=4, traffic=TRAFFIC, warm_up_batches=1)


def rows(data: StoredDataset) -> pa.Table:
    files = sorted(data.files.iterdir(), key=lambda file: file.stat().st_mtime)
    return pa.concat_tables([pq.read_table(file) for file in files])


def test_batches_are_equal_and_files_in_order_of_time(tmp_path: Path) -> None:
    data = stored(SMALL, tmp_path)
    files = sorted(data.files.iterdir())
    assert [pq.read_metadata(file).num_rows for file in files] == [250] * 10
    assert all(one.stat().st_mtime < other.stat().st_mtime for one, other in pairwise(files))
    assert data.uncounted == 1


def test_the_same_description_gives_the_same_events_and_makes_them_once(tmp_path: Path) -> None:
    first = stored(SMALL, tmp_path / "a")
    assert rows(first).equals(rows(stored(SMALL, tmp_path / "b")))
    assert replace(SMALL, seed=2).folder_name != SMALL.folder_name
    made = {file.name: file.stat().st_ino for file in first.files.iterdir()}
    assert {file.name: file.stat().st_ino for file in stored(SMALL, tmp_path / "a").files.iterdir()} == made


def test_measured_batches_do_not_depend_on_the_background(tmp_path: Path) -> None:
    few = replace(SMALL, background=100, background_awake=50, background_share=0.3)
    many = replace(few, background=700)
    some, more = rows(stored(few, tmp_path)), rows(stored(many, tmp_path))
    assert more.num_rows - some.num_rows == 2 * 600
    assert more.slice(1400).equals(some.slice(200))


def test_a_batch_that_is_sent_twice_has_each_event_twice(tmp_path: Path) -> None:
    twice = rows(stored(replace(SMALL, sent_twice=True), tmp_path))
    for batch in (twice.slice(start, 500) for start in range(0, twice.num_rows, 500)):
        assert batch.slice(0, 250).equals(batch.slice(250))
    assert twice.num_rows == 2_500
    assert len(set(twice.column("event_id").to_pylist())) == 1_250


def test_the_first_batches_of_a_data_set(tmp_path: Path) -> None:
    data = stored(SMALL, tmp_path)
    part = only_first(data, 2, SMALL.files_per_batch)
    assert rows(part).equals(rows(data).slice(0, 3 * 500))
    assert only_first(data, 9, SMALL.files_per_batch) == data


def test_sessions_have_eleven_events_and_gaps_below_their_timeout() -> None:
    events, session = visits.ordinary(np.random.default_rng(1), TRAFFIC, 2_000_000)
    assert abs(len(events) / len(np.unique(session)) - 11) < 0.3
    inside = np.diff(session) == 0
    assert (np.diff(events.at_ms)[inside] <= events.timeout_s[1:][inside] * 1000).all()


def test_history_is_of_open_sessions_only() -> None:
    events, session = visits.ordinary(np.random.default_rng(1), TRAFFIC, 200_000)
    past = visits.history(events, session, 3)
    assert (past.at_ms < visits.START_MS).all()
    assert not past.is_last.any()
    newest = dict(zip(past.user, past.at_ms, strict=True))
    assert all(at + 60_000 > visits.START_MS for at in newest.values())


def test_texts_are_of_the_length_they_should_be() -> None:
    rng = np.random.default_rng(1)
    lengths = [len(text) for text in texts.requests(rng, 2_000).to_pylist()]
    assert 30 <= min(lengths) <= max(lengths) <= 90
    assert texts.numbered("u", np.array([7, 12_345_678])).to_pylist() == ["u00000007", "u12345678"]
    assert {len(text) for text in texts.hexadecimal(rng, 100, 16).to_pylist()} == {16}


def test_contestants_take_turns() -> None:
    order = [(turn.contestant, turn.repetition) for turn in turns((growth(1000),), Choices(repetitions=2))]
    assert order == [(name, number) for number in (0, 1) for name in ("ours", "session_window", "ours_plain")]
    assert len({workload.name for workload in full()}) == len(full()) == 4 + len(GROWTH_LEVELS)


def test_a_race_survives_json(tmp_path: Path) -> None:
    race = Race(tmp_path / "files", 2, tmp_path, 30, 16)
    values = {name: getattr(race, name) for name in race.__slots__}
    assert Race.from_json({**values, "files": str(race.files), "folder": str(race.folder)}) == race


def test_a_race_with_flink_asks_for_it_before_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink, "HOME", tmp_path)
    monkeypatch.setattr(command, "play", pytest.fail)
    with pytest.raises(flink.FlinkMissing, match=r"make \.tools/flink/\.ready"):
        command._race((LARGE,), Choices(), {"runs": []}, tmp_path)


def test_flink_gets_the_warm_up_and_the_measured_events_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, folder = tmp_path / "files", tmp_path / "run"
    files.mkdir()
    folder.mkdir()
    for number in range(6):
        pq.write_table(pa.table({"number": [2 * number, 2 * number + 1]}), files / f"batch-{number}.parquet")
    race = Race(files=files, files_per_batch=2, folder=folder, emit_every_s=None, key_groups=1)
    monkeypatch.setattr(flink, "HOME", tmp_path / "flink")
    with pytest.raises(flink.FlinkMissing):
        flink.prepare(race, 1)
    flink.HOME.mkdir()
    (flink.HOME / ".ready").touch()
    told = flink.prepare(race, 1)
    read = {
        name: pq.read_table(f"{told['input']}/{name}.parquet")["number"].to_pylist() for name in ("warm_up", "measured")
    }
    assert read == {"warm_up": [*range(4)], "measured": [*range(4, 12)]}
    assert any("hadoop-client" in jar for jar in told["jars"])
