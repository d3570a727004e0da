"""The disk of the platform's home fills up under a running driver; there is room again, and the next one goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.errors import DiskFull, TransientError
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.streams import view_spec
from support.expected.landed import assert_as_defined
from support.faults.small_disk import fill
from support.processes.driver_process import DriverProcess, run_to_end
from support.streams.click_files import write_click_files
from support.streams.moments import Moment, freeze_at
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

FILES = 12
LEFT_BYTES = 48 * 1024


@pytest.mark.usefixtures("tuned")
@pytest.mark.long
@pytest.mark.parametrize("left", [0, LEFT_BYTES])
def test_room_again_after_the_disk_was_full(tmp_path: Path, small_disk: Path, left: int) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(), home=small_disk)
    files = write_click_files(stage.feed, FILES)
    with DriverProcess.start(stage, "a") as driver:
        freeze_at(Moment.COMMITTED, driver, stage)
        ballast = fill(small_disk, left)
        driver.thaw()
        code = driver.wait()
    assert TransientError.exit_code <= code < TransientError.exit_code + 10, driver.said[-4_000:]
    ended = EXIT_FILE.of(stage.stream_home, "a").read()
    assert ended, "its last words had room kept back"
    assert (ended.error_type, ended.terminal) == ("disk_full", False)
    assert view_spec(stage.spec(), stage.home).health.word is HealthWord.DOWN

    with DriverProcess.start(stage, "b") as driver:
        assert driver.wait() == DiskFull.exit_code, "there is still no room"
    ballast.unlink()
    stage.write_spec(clicks_spec(files_per_batch=FILES))
    run_to_end(stage, "c", apply=True)
    assert_as_defined(stage, files)
