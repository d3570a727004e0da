"""A batch longer than the stale limit: its driver is left alone while it works, and noticed when it hangs."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from sessionizer.checkpoint.log_entries import list_committed_batches
from sessionizer.control.records.process_records import ExitOutcome, request_stop
from sessionizer.control.status.batch_progress import running_line
from sessionizer.control.status.driver_status import DriverStatus, Stall, State, read_driver
from sessionizer.control.timeouts import Timeouts, read_configured_timeouts
from sessionizer.errors import DiskFull, QueryInterrupted, TransientError
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.streams import view_spec
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import list_names
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.spark.ingest import punctuation
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined
from support.faults.small_disk import fill
from support.places import known
from support.processes.driver_process import DriverProcess, run_to_end
from support.stores.control_fixtures import ON_A_PATH_AND_HDFS
from support.streams.click_files import FIRST_EVENT_MS, many_clicks_spec, write_click_files, write_many_clicks
from support.streams.moments import Moment, freeze_at
from support.streams.stage import Stage, clicks_spec

STALE_MS = 10_000
LIMITS = Timeouts(stale_after_ms=STALE_MS)
EVENTS = 3_000_000
"""They take a small machine half a minute."""


def look(stage: Stage, limits: Timeouts = LIMITS) -> DriverStatus:
    return read_driver(stage.stream_home, epoch_ms(), limits)


def stalled(stage: Stage, how: Stall) -> bool:
    seen = look(stage)
    assert seen.stall in {None, how}, seen.stall
    return seen.state is State.STALLED


@contextmanager
def standing_still(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def python_workers(driver: DriverProcess) -> list[int]:
    return [pid for pid in driver.family() if pid not in {driver.pid, driver.jvm}]


def shows_progress(stage: Stage) -> bool:
    """Whether the driver is at work on its first batch, and nothing of it looks hung."""
    seen = look(stage)
    age = seen.progress_age_ms
    return seen.state is State.RUNNING and age is not None and age < STALE_MS / 2


@pytest.mark.long
def test_a_first_batch_longer_than_the_stale_limit(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, many_clicks_spec())
    write_many_clicks(stage.feed, EVENTS)
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(lambda: shows_progress(stage), "progress in its first batch")

        with standing_still(python_workers(driver)):
            driver.wait_for(lambda: stalled(stage, Stall.NO_PROGRESS), "the stuck tasks to be noticed")
            age = look(stage).age_ms  # may be 0
            assert age is not None
            assert age < STALE_MS, "its driver beats on"
        driver.wait_for(lambda: shows_progress(stage), "progress after its workers were woken")

        driver.freeze()
        driver.wait_for(lambda: stalled(stage, Stall.SILENT), "the silence to be noticed")
        driver.thaw()
        driver.wait_for(lambda: shows_progress(stage), "progress after it was woken")

        request_stop(stage.stream_home, "a", "a test")
        told = watched_to_its_end(stage, driver)
        assert driver.wait() == 0, driver.said[-4_000:]
    assert any("batch 0: " in line and " of 4 tasks" in line for line in told), told
    ended = stage.exit_of("a")
    assert (ended.outcome, ended.batch_id) == (ExitOutcome.STOPPED, 0)
    assert list_committed_batches(stage.checkpoint) == {0}


def watched_to_its_end(stage: Stage, driver: DriverProcess) -> set[str]:
    """What was told of the batch until the driver ended: never that it hung."""
    told: set[str] = set()

    def has_ended() -> bool:
        seen = look(stage)
        assert seen.state in {State.STOPPING, State.STOPPED}, (seen.state, seen.stall, seen.heartbeat)
        line = running_line(seen.heartbeat, epoch_ms()) if seen.heartbeat else None
        told.update([line] if line else [])
        return seen.state is State.STOPPED

    driver.wait_for(has_ended, "the end of its batch")
    return told


PATIENCE = read_configured_timeouts({"SESSIONIZER_STALE_LIMIT": "6 seconds"})


def beats_long_after_its_batch(stage: Stage) -> bool:
    """Whether it shows progress still, when its only batch is over for longer than any silence may last."""
    seen = look(stage, PATIENCE)
    assert seen.state is not State.STALLED, (seen.stall, seen.heartbeat)
    beat = seen.heartbeat
    if beat is None or beat.batch_at is None or beat.progress_at is None:
        return False
    return min(beat.at, beat.progress_at) > beat.batch_at + 2 * PATIENCE.stale_after_ms


@pytest.mark.long
def test_a_driver_that_waits_for_its_trigger_is_well_and_one_that_hangs_is_not(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec() | {"trigger_interval": "1 hour"})
    write_click_files(stage.feed, 1)
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(lambda: beats_long_after_its_batch(stage), "beats between two triggers")
        driver.freeze()
        driver.wait_for(lambda: look(stage, PATIENCE).stall is Stall.SILENT, "the silence to be noticed")
        driver.thaw()
        driver.wait_for(
            lambda: look(stage, PATIENCE).state in {State.RUNNING, State.IDLE},
            "a beat after it was woken",
        )
        request_stop(stage.stream_home, "a", "a test")
        assert driver.wait() == 0, driver.said[-4_000:]
    assert stage.exit_of("a").outcome is ExitOutcome.STOPPED


TWO_BATCHES_ARE_KEPT = "-Dspark.sql.streaming.minBatchesToRetain=1 -Dspark.sql.streaming.asyncLogPurge.enabled=false"
"""Java options: a driver has to come past Spark's hundred batches before it removes anything."""


def folder_of(stage: Stage) -> DataPath:
    return stage.stream_home.punctuations(known(stage.lineage))


def found(stage: Stage) -> set[str]:
    return {name for name in list_names(folder_of(stage)) if name.endswith(".json")}


def needed(stage: Stage) -> set[str]:
    """Return the names of those that are unread, or that a replay of a kept batch reads. None replays the oldest."""
    oldest, *later = CheckpointLog(stage.checkpoint).committed()
    return found(stage) - (oldest.files - {name for batch in later for name in batch.files})


@pytest.mark.long
@ON_A_PATH_AND_HDFS
def test_a_restarted_driver_does_not_look_for_punctuations_that_are_gone(
    tmp_path: Path, data: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", TWO_BATCHES_ARE_KEPT)
    stage = Stage.set_up(tmp_path, clicks_spec(), data=data)
    write_click_files(stage.feed, 1)
    before, kept, removed = set[str](), set[str](), 0
    for uid, until in (("a", "caught-up"), ("b", "caught-up"), ("c", "caught-up"), ("d", "drained")):
        with DriverProcess.start(stage, uid, until) as driver:
            assert driver.wait() == 0, driver.said[-4_000:]
            assert "Failed to remove" not in driver.said
        assert before & found(stage) == kept
        removed += len(before - kept)
        assert len(CheckpointLog(stage.checkpoint).committed()) == 2
        if until == "caught-up":
            punctuation.wake(folder_of(stage))
        before, kept = found(stage), needed(stage)
    assert removed


USERS, EVENTS_OF_NO_MEMORY, PAGE_CHARACTERS = 8_000, 800_000, 400
SMALL_HEAP = "512m"


@pytest.mark.usefixtures("tuned")
@pytest.mark.long
def test_a_driver_without_memory_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", SMALL_HEAP)
    spec = clicks_spec()
    spec["mapping"]["payload"] = {"page": "repeat(left(page, 1), 1500000000)"}
    stage = Stage.set_up(tmp_path, spec)
    write_click_files(stage.feed, 1)
    with DriverProcess.start(stage, "a") as driver:
        assert driver.wait() == QueryInterrupted.exit_code, driver.said[-4_000:]
        assert "the driver more memory" in driver.said
    ended = stage.exit_of("a")
    assert (ended.error_type, ended.terminal) == ("memory", False), ended.message
    assert "java.lang.OutOfMemoryError" in (ended.message or "")
    assert view_spec(stage.spec(), stage.home).health.word is HealthWord.DOWN


@pytest.mark.long
def test_a_batch_may_close_more_than_the_heap_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", SMALL_HEAP)
    spec = many_clicks_spec()
    spec["source"]["columns"] += ", page string"
    spec["mapping"]["payload"] = {"page": "page"}
    spec["rules"], spec["key_groups"] = {"gap_timeout": "1 day"}, 32
    stage = Stage.set_up(tmp_path, spec)
    _write_long_pages(stage.feed)
    run_to_end(stage, "a")
    landed = DeltaTable(uri_of(stage.table("sessions"))).to_pyarrow_dataset().to_table(columns=["event_count"])
    assert (landed.num_rows, pc.sum(landed["event_count"]).as_py()) == (USERS, EVENTS_OF_NO_MEMORY)


def _write_long_pages(folder: Path) -> None:
    random = np.random.default_rng(0)
    ids = np.arange(EVENTS_OF_NO_MEMORY)
    letters = random.integers(48, 112, EVENTS_OF_NO_MEMORY * PAGE_CHARACTERS, dtype=np.uint8).tobytes()
    ends = pa.py_buffer((np.arange(EVENTS_OF_NO_MEMORY + 1) * PAGE_CHARACTERS).astype(np.int32))
    table = pa.table(
        {
            "event_id": pa.array(ids).cast(pa.string()),
            "user_id": pa.array(ids % USERS).cast(pa.string()),
            "ts": FIRST_EVENT_MS + ids * 10,
            "page": pa.StringArray.from_buffers(EVENTS_OF_NO_MEMORY, ends, pa.py_buffer(letters)),
        }
    )
    pq.write_table(table, folder / "pages.parquet", row_group_size=20_000)


FILES = 12


@pytest.mark.usefixtures("tuned")
@pytest.mark.long
@pytest.mark.parametrize("left", [0, 48 * 1024])
def test_room_again_after_the_disk_was_full(tmp_path: Path, small_disk: Path, left: int) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(), home=small_disk)
    files = write_click_files(stage.feed, FILES)
    with DriverProcess.start(stage, "a") as driver:
        freeze_at(Moment.COMMITTED, driver, stage)
        ballast = fill(small_disk, left)
        driver.thaw()
        code = driver.wait()
    assert TransientError.exit_code <= code < TransientError.exit_code + 10, driver.said[-4_000:]
    ended = stage.exit_of("a")  # its last words had room kept back
    assert (ended.error_type, ended.terminal) == ("disk_full", False)
    assert view_spec(stage.spec(), stage.home).health.word is HealthWord.DOWN

    with DriverProcess.start(stage, "b") as driver:
        assert driver.wait() == DiskFull.exit_code, "there is still no room"
    ballast.unlink()
    stage.write_spec(clicks_spec(files_per_batch=FILES))
    run_to_end(stage, "c", apply=True)
    assert_as_defined(stage, files)


@pytest.mark.long
def test_a_killed_drivers_scratch_is_closed_and_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(scratch))
    stage = Stage.set_up(tmp_path / "stage", clicks_spec())
    write_click_files(stage.feed, 4)
    with DriverProcess.start(stage, "d0") as driver:
        freeze_at(Moment.BATCH_RUNS, driver, stage)
        (base,) = scratch.glob("streaming-state-*")
        assert base.stat().st_mode & 0o077 == 0
        (left,) = base.iterdir()
        assert any(left.glob("blockmgr-*"))
        outside = {path.name.partition("-")[0] for path in scratch.iterdir()}
        assert outside <= {"streaming", "hsperfdata_root"}, outside
        driver.kill_all()
    assert any(left.rglob("*.so")), "the libraries of a JVM that was killed stay"
    run_to_end(stage, "last", apply=True)
    assert list(base.iterdir()) == []
