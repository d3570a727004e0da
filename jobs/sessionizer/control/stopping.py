"""Asking a stream's drivers to stop: at a batch boundary, each in its own time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.lease.ledger import read_lease
from sessionizer.control.records.exit_record import read_exit
from sessionizer.control.records.launch_record import read_launch, submission_failed
from sessionizer.control.records.lease_record import Vacancy
from sessionizer.control.records.process_identity import is_alive
from sessionizer.control.records.stop_marker import request_stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.control.records.exit_record import ExitRecord
    from sessionizer.control.records.launch_record import LaunchRecord
    from sessionizer.control.records.lease_record import LeaseRecord
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
    if lease is not None and lease.uid is not None and _is_at_work(lease, read_exit(home, lease.uid)):
        found.add(lease.uid)
    if launch is not None and (lease is None or lease.uid != launch.uid):
        end, refused = read_exit(home, launch.uid), submission_failed(home, launch.uid)
        if _may_start(launch, end, refused=refused):
            found.add(launch.uid)
    return found


def _is_at_work(lease: LeaseRecord, end: ExitRecord | None) -> bool:
    if lease.vacancy is Vacancy.RELEASED or lease.ended_by(end):
        return False
    alive = is_alive(lease.process) if lease.process else None
    # who fenced a driver that cannot be seen from here has had it killed by the cluster
    return alive is True or (alive is None and lease.vacancy is not Vacancy.FENCED)


def _may_start(launch: LaunchRecord, end: ExitRecord | None, *, refused: bool) -> bool:
    """``refused``: spark-submit ended without having handed it over to its cluster."""
    if launch.ended_at is not None or end is not None or refused:
        return False
    # what was handed over is the cluster's to start, however long ago its client ended
    return launch.submission is not None or launch.process is None or is_alive(launch.process) is not False
