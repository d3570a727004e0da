"""An executor that dies in mid-batch, on a cluster of processes: its tasks run again elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.expected.landed import assert_as_defined
from support.processes.driver_process import DriverProcess, kill_process
from support.streams.click_files import write_click_files
from support.streams.moments import Moment, freeze_at
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

FILES = 10
CLUSTER = "local-cluster[2,1,1024]"
"""Two workers of one core and 1,024 MB each."""


@pytest.mark.long
def test_the_stream_outlives_an_executor(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    files = write_click_files(stage.feed, FILES)
    with DriverProcess.start(stage, "a", master=CLUSTER) as driver:
        for _ in range(2):
            freeze_at(Moment.BATCH_RUNS, driver, stage)
            kill_process(driver.executors()[0])
            driver.thaw()
        assert driver.wait() == 0, driver.said[-4_000:]
    assert_as_defined(stage, files)
