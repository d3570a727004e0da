"""The feed as a process: a signal ends it with its counts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def visible_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name[0] not in "._")


def lines_of(folder: Path) -> list[bytes]:
    return [line for path in visible_files(folder) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_endless_feed_with_its_ground_truth(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", "import typer; from sessionizer_demo.feed.commands import feed; typer.run(feed)"]
    arguments = ["--to", "folder", "--path", str(tmp_path), "--rate", "200", "--tick", "0.2", "--json"]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not visible_files(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=10)
    assert process.returncode == 0
    assert json.loads(printed)["rows"] == len(lines_of(tmp_path)) > 0
    assert visible_files(tmp_path) == sorted(tmp_path.iterdir())
