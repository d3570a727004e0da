"""The disk of the platform's home fills up under a running driver; there is room again, and the next one goes on."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from click_files import write_click_files
from driver_process import DriverProcess, run_to_end
from landed import assert_as_defined
from moments import Moment, freeze_at
from sessionizer.control.exit_record import read_exit
from sessionizer.errors import DiskFull, TransientError
from stage import Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = 12
DISK_MB = 96
LEFT_BYTES = 48 * 1024


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of its own; mounting it takes root.

    Not below pytest's own temporary folder: what an interrupted run leaves mounted there fails every later run.
    """
    mounted = Path(tempfile.mkdtemp(prefix="sessionizer-small-disk-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(mounted)], check=True)
    yield mounted
    subprocess.run(["umount", "--lazy", str(mounted)], check=True)
    mounted.rmdir()


def fill(disk: Path, left: int) -> Path:
    """Take nearly all the room there is; the file to remove when there shall be room again."""
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_bsize - left))
    return ballast


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
    ended = read_exit(stage.stream_home, "a")
    assert ended, "its last words had room kept back"
    assert (ended.error_type, ended.terminal) == ("disk_full", False)

    with DriverProcess.start(stage, "b") as driver:
        assert driver.wait() == DiskFull.exit_code, "there is still no room"
    ballast.unlink()
    stage.write_spec(clicks_spec(files_per_batch=FILES))
    run_to_end(stage, "c", apply=True)
    assert_as_defined(stage, files)
