"""A trigger interval far longer than the stale limit: a driver that waits is left alone, one that hangs is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, request_stop
from sessionizer.control.status.driver_status import DriverStatus, Stall, State
from sessionizer.control.status.read_status import read_driver
from sessionizer.control.timeouts import read_configured_timeouts
from sessionizer.home.clock import epoch_ms
from support.processes.driver_process import DriverProcess
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

STALE_MS = 6_000
PATIENCE = read_configured_timeouts({"SESSIONIZER_STALE_LIMIT": "6 seconds"})


def look(stage: Stage) -> DriverStatus:
    return read_driver(stage.stream_home, epoch_ms(), PATIENCE)


def beats_long_after_its_batch(stage: Stage) -> bool:
    """Whether it shows progress still, when its only batch is over for longer than any silence may last."""
    seen = look(stage)
    assert seen.state is not State.STALLED, (seen.stall, seen.heartbeat)
    beat = seen.heartbeat
    if beat is None or beat.batch_at is None or beat.progress_at is None:
        return False
    return min(beat.at, beat.progress_at) > beat.batch_at + 2 * STALE_MS


@pytest.mark.long
def test_a_driver_that_waits_for_its_trigger_is_well_and_one_that_hangs_is_not(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec() | {"trigger_interval": "1 hour"})
    write_click_files(stage.feed, 1)
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(lambda: beats_long_after_its_batch(stage), "beats between two triggers")
        driver.freeze()
        driver.wait_for(lambda: look(stage).stall is Stall.SILENT, "the silence to be noticed")
        driver.thaw()
        driver.wait_for(lambda: look(stage).state in {State.RUNNING, State.IDLE}, "a beat after it was woken")
        request_stop(stage.stream_home, "a", "a test")
        assert driver.wait() == 0, driver.said[-4_000:]
    ended = EXIT_FILE.of(stage.stream_home, "a").read()
    assert ended
    assert ended.outcome is ExitOutcome.STOPPED
