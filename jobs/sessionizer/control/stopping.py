"""Requests to a stream's drivers to stop, each at its next batch boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.lease.ledger import read_lease
from sessionizer.control.records.exit_record import EXIT_FILE, request_stop
from sessionizer.control.records.launch_record import read_launch

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.stream_home import StreamHome


def ask_to_stop(home: StreamHome, why: str, say: Callable[[str], None] = lambda _: None) -> set[str]:
    """Ask every driver that may be at work to stop, including one that waits for its lease. Returns their uids.

    Harmless when repeated. ``say`` gets a line for each. Raises ControlUnreachable, UnwritablePath, DiskFull.
    """
    asked = live_drivers(home)
    for uid in sorted(asked):
        request_stop(home, uid, why)
        say(f"driver {uid} is asked to stop: {why}")
    return asked


def live_drivers(home: StreamHome) -> set[str]:
    """Return the drivers that may be at work: the lease's owner, and a launched driver without the lease so far.

    A launched driver may wait for its lease for hours, in the queue of a cluster. It finds the request when it starts.
    """
    lease, launch = read_lease(home), read_launch(home)
    found = set()
    if lease is not None and lease.uid is not None and lease.may_be_at_work(EXIT_FILE.of(home, lease.uid).read()):
        found.add(lease.uid)
    without_lease = launch is not None and (lease is None or lease.uid != launch.uid)
    if launch is not None and without_lease and launch.may_start and EXIT_FILE.of(home, launch.uid).read() is None:
        found.add(launch.uid)
    return found
