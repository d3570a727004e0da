"""Asking a stream's drivers to stop: at a batch boundary, each in its own time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.stop_marker import request_stop
from sessionizer.control.status.live_drivers import live_drivers

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.stream_home import StreamHome


def ask_to_stop(home: StreamHome, why: str, say: Callable[[str], None] = lambda _: None) -> set[str]:
    """Ask all that may be at work, also one that waits for its lease; returns their uids. Harmless when repeated.

    ``say`` gets a line for each. Raises ControlUnreachable, UnwritablePath.
    """
    asked = live_drivers(home)
    for uid in sorted(asked):
        request_stop(home, uid, why)
        say(f"driver {uid} is asked to stop: {why}")
    return asked
