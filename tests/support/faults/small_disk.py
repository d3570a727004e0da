"""A small file system of its own, and how to fill it; ``pytest_plugins = ["small_disk"]`` makes the fixture known."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of its own; mounting it takes root.

    Not below pytest's own temporary folder: what an interrupted run leaves mounted there fails every later run.
    """
    mounted = Path(tempfile.mkdtemp(prefix="sessionizer-small-disk-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(mounted)], check=True)
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
