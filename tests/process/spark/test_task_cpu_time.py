"""The processor time of tasks, read from real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from sessionizer.spark.driver.batch_history import task_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "while True: pass"])
"""


def test_a_worker_that_works_is_seen_and_one_that_stands_still_is_not() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], start_new_session=True) as parent:
        try:
            _await(lambda: task_seconds(parent.pid) >= 1)
            os.killpg(parent.pid, signal.SIGSTOP)
            stood = task_seconds(parent.pid)
            busy_until = time.process_time() + 0.2
            while time.process_time() < busy_until:
                assert task_seconds(parent.pid) == stood, "our own processor time is none of its"
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_a_process_that_is_gone_did_nothing() -> None:
    with subprocess.Popen(["/bin/true"]) as ended:
        ended.wait()
    assert task_seconds(ended.pid) == 0


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
