"""Which drivers of a stream may be at work, and so have to be asked when it is to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.clock import epoch_ms
from sessionizer.control.lease_ledger import read_lease
from sessionizer.control.status import read_observation
from sessionizer_airflow.launching.launch_record import read_launch

if TYPE_CHECKING:
    from sessionizer.control.stream_home import StreamHome


def live_drivers(home: StreamHome) -> set[str]:
    """Those that may be at work: the lease's owner, and one that was launched and has not taken the lease yet."""
    lease, launch = read_lease(home), read_launch(home)
    candidates = {record.uid for record in (lease, launch) if record is not None and record.uid is not None}
    return {uid for uid in candidates if _is_at_work(home, uid)}


def _is_at_work(home: StreamHome, uid: str) -> bool:
    launch = read_launch(home)
    launched_at = launch.at if launch is not None and launch.uid == uid else None
    return read_observation(home, epoch_ms(), uid=uid, launched_at=launched_at).state.is_live
