"""The program as its own process: what it loads, and a pipe that closes early."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from support.places import REPOSITORY

if TYPE_CHECKING:
    from support.processes.fabricated_platform import Platform

JOBS = REPOSITORY / "jobs"


def test_help_does_not_load_spark() -> None:
    program = "import sys, sessionizer.cli.app; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(JOBS)}
    ).stdout.split()
    assert not {"pyspark", "pandas", "delta"} & set(loaded)


def test_a_closed_pipe_is_no_traceback(platform: Platform) -> None:
    platform.add("visits")
    command = f"{sys.executable} {JOBS / 'main.py'} spec schema | head -1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert ended.stdout == "{\n"
    assert ended.stderr == ""
