"""Asking a stream's drivers to stop: at a batch boundary, each in its own time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.lease.ledger import read_lease
from sessionizer.control.records.exit_record import read_exit
from sessionizer.control.records.launch_record import read_launch
from sessionizer.control.records.stop_marker import request_stop

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


def live_drivers(home: StreamHome) -> set[str]:
    """Those that may be at work: the lease's owner, and one that was launched and has not taken the lease yet.

    A launched one may wait for its lease for hours, in the queue of a cluster: it finds the request when it starts.
    """
    lease, launch = read_lease(home), read_launch(home)
    found = set()
    if lease is not None and lease.uid is not None and lease.may_be_at_work(read_exit(home, lease.uid)):
        found.add(lease.uid)
    without_lease = launch is not None and (lease is None or lease.uid != launch.uid)
    if launch is not None and without_lease and launch.may_start and read_exit(home, launch.uid) is None:
        found.add(launch.uid)
    return found
