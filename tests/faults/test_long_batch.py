"""A batch longer than the stale limit: its driver is left alone while it works, and noticed when it hangs."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sessionizer.checkpoint.log_entries import list_committed_batches
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, request_stop
from sessionizer.control.status.batch_progress import running_line
from sessionizer.control.status.driver_status import DriverStatus, Stall, State, read_driver
from sessionizer.control.timeouts import Timeouts, read_configured_timeouts
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import list_names
from sessionizer.home.roots import DataPath
from sessionizer.spark.ingest import punctuation
from support.expected.checkpoint_log import CheckpointLog
from support.processes.driver_process import DriverProcess
from support.stores.control_fixtures import ON_A_PATH_AND_HDFS
from support.streams.click_files import many_clicks_spec, write_click_files, write_many_clicks
from support.streams.stage import Stage, clicks_spec

STALE_MS = 10_000
EVENTS = 3_000_000
"""They take a small machine half a minute."""


def look(stage: Stage) -> DriverStatus:
    return read_driver(stage.stream_home, epoch_ms(), Timeouts(stale_after_ms=STALE_MS))


def stalled(stage: Stage, how: Stall) -> bool:
    seen = look(stage)
    assert seen.stall in {None, how}, seen.stall
    return seen.state is State.STALLED


@contextmanager
def standing_still(pids: list[int]) -> Iterator[None]:
    """Nothing of these processes moves."""
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
            seen = look(stage)
            assert seen.age_ms is not None
            assert seen.age_ms < STALE_MS, "its driver beats on"
        driver.wait_for(lambda: shows_progress(stage), "progress after its workers were woken")

        driver.freeze()
        driver.wait_for(lambda: stalled(stage, Stall.SILENT), "the silence to be noticed")
        driver.thaw()
        driver.wait_for(lambda: shows_progress(stage), "progress after it was woken")

        request_stop(stage.stream_home, "a", "a test")
        told = watched_to_its_end(stage, driver)
        assert driver.wait() == 0, driver.said[-4_000:]
    assert any("batch 0: " in line and " of 4 tasks" in line for line in told), told
    ended = EXIT_FILE.of(stage.stream_home, "a").read()
    assert ended
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


STALE_MS_OF_LONG_TRIGGER = 6_000
PATIENCE = read_configured_timeouts({"SESSIONIZER_STALE_LIMIT": "6 seconds"})


def look_of_long_trigger_interval(stage: Stage) -> DriverStatus:
    return read_driver(stage.stream_home, epoch_ms(), PATIENCE)


def beats_long_after_its_batch(stage: Stage) -> bool:
    """Whether it shows progress still, when its only batch is over for longer than any silence may last."""
    seen = look_of_long_trigger_interval(stage)
    assert seen.state is not State.STALLED, (seen.stall, seen.heartbeat)
    beat = seen.heartbeat
    if beat is None or beat.batch_at is None or beat.progress_at is None:
        return False
    return min(beat.at, beat.progress_at) > beat.batch_at + 2 * STALE_MS_OF_LONG_TRIGGER


@pytest.mark.long
def test_a_driver_that_waits_for_its_trigger_is_well_and_one_that_hangs_is_not(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec() | {"trigger_interval": "1 hour"})
    write_click_files(stage.feed, 1)
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(lambda: beats_long_after_its_batch(stage), "beats between two triggers")
        driver.freeze()
        driver.wait_for(lambda: look_of_long_trigger_interval(stage).stall is Stall.SILENT, "the silence to be noticed")
        driver.thaw()
        driver.wait_for(
            lambda: look_of_long_trigger_interval(stage).state in {State.RUNNING, State.IDLE},
            "a beat after it was woken",
        )
        request_stop(stage.stream_home, "a", "a test")
        assert driver.wait() == 0, driver.said[-4_000:]
    ended = EXIT_FILE.of(stage.stream_home, "a").read()
    assert ended
    assert ended.outcome is ExitOutcome.STOPPED


TWO_BATCHES_ARE_KEPT = "-Dspark.sql.streaming.minBatchesToRetain=1 -Dspark.sql.streaming.asyncLogPurge.enabled=false"
"""Java options: a driver has to come past Spark's hundred batches before it removes anything."""


def folder_of(stage: Stage) -> DataPath:
    """Return the folder of the punctuations of the stream's lineage."""
    assert stage.lineage
    return stage.stream_home.punctuations(stage.lineage)


def found(stage: Stage) -> set[str]:
    """Return the names of the punctuations that are there."""
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
