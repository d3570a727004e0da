"""Commands whose output is closed, full or only ASCII, or whose folder is gone: no traceback, and a fitting code."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from sessionizer.errors import DiskFull, NoWorkingFolder
from support.places import REPOSITORY
from support.processes.fabricated_platform import Platform
from support.streams.drawn_logs import drawn_cases

MAIN: Final = str(REPOSITORY / "jobs" / "main.py")
COMMANDS: Final = (("status",), ("status", "--json"), ("timeline", "clicks"), ("tables", "clicks"), ("--help",))
OUTPUTS: Final = {"closed": ">&-", "all closed": "<&- >&- 2>/dev/null", "full": ">/dev/full", "ASCII": "| cat"}


def run(platform: Platform, words: tuple[str, ...], redirected: str) -> tuple[int, str]:
    """Run a command through a shell, which redirects its output. Return its code and what it says on stderr."""
    places = {"SESSIONIZER_HOME": str(platform.home), "SESSIONIZER_STREAMS": str(platform.streams)}
    line = f'set -o pipefail; "$@" {redirected}'
    done = subprocess.run(
        ["bash", "-c", line, "bash", sys.executable, MAIN, *words],
        env={**os.environ, **places, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(("words", "output"), drawn_cases(product(COMMANDS, OUTPUTS), 6))
def test_no_command_fails_of_its_output(words: tuple[str, ...], output: str, platform: Platform) -> None:
    platform.add("clicks")
    platform.drive("clicks", batch_id=7)[0].release()
    code, said = run(platform, words, OUTPUTS[output])
    assert "Traceback" not in said
    assert code == (DiskFull.exit_code if output == "full" else 0), said


def test_a_deleted_folder_is_told(tmp_path: Path) -> None:
    line = ("sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} {MAIN} status")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SESSIONIZER_")}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == NoWorkingFolder.exit_code, done.stderr
    assert "remedy: choose a folder" in done.stderr
