"""The end of a demo's drivers: a request to stop, then SIGKILL for processes that do not end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sessionizer.control.maintenance import ask_to_stop
from sessionizer.home.stream_home import stream_homes
from sessionizer_demo.local_airflow.parts import end_processes, left_behind

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer_demo.local_airflow.installation import Installation

STOP_SECONDS = 120.0


def stop_drivers(installation: Installation, say: Callable[[str], None]) -> None:
    """Ask every driver of the installation to stop at its batch boundary, and wait at most ``STOP_SECONDS``."""
    for home in stream_homes(installation.platform_home):
        for _ in ask_to_stop(home, "the demo ends"):
            say(f"stopping the driver of {home.name}")
    deadline = time.monotonic() + STOP_SECONDS
    while left_behind(installation) and time.monotonic() < deadline:
        time.sleep(0.5)


def end_the_rest(installation: Installation, say: Callable[[str], None]) -> None:
    """Kill all remaining processes of the installation, each by its own process id."""
    rest = left_behind(installation)
    if rest:
        say(f"killing {len(rest)} processes that did not end: {', '.join(str(process.pid) for process in rest)}")
        end_processes(rest, seconds=0.0)
