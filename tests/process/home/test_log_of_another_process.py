"""A log that another process writes while it is cut."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from sessionizer.home.local_files import BoundedLog

if TYPE_CHECKING:
    from pathlib import Path


def test_another_process_goes_on_writing_to_the_same_file(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "driver.a.log", limit_bytes=3)
    program = "import sys\nfor line in sys.stdin: print(line.strip() * 2, flush=True)"
    with log.path.open("ab") as output:
        writer = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=output, text=True, bufsize=1
        )
    assert writer.stdin is not None
    for word in ("before", "after"):
        writer.stdin.write(f"{word}\n")
        writer.stdin.flush()
        _until_it_holds(log.path, word)
        if word == "before":
            assert log.trim()
    writer.stdin.close()
    writer.wait()
    assert log.path.read_bytes() == b"afterafter\n", "no hole where the old text was"
    assert log.parts()[0].read_text() == "beforebefore\n"


def _until_it_holds(path: Path, word: str) -> None:
    deadline = time.monotonic() + 30
    while word not in path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
