"""A batch longer than the stale limit: its driver is left alone while it works, and noticed when it hangs."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from sessionizer.checkpoint.batch_logs import list_committed_batches
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, request_stop
from sessionizer.control.status.driver_status import DriverStatus, Stall, State
from sessionizer.control.status.progress_line import running_line
from sessionizer.control.status.read_status import read_driver
from sessionizer.control.timeouts import Timeouts
from sessionizer.home.clock import epoch_ms
from support.processes.driver_process import DriverProcess
from support.streams.many_clicks import many_clicks_spec, write_many_clicks
from support.streams.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
