"""The status of a driver, from its state and a few moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.driver_records import Heartbeat, Phase
from sessionizer.control.records.process_records import LaunchRecord
from sessionizer.control.status.driver_status import DriverStatus

if TYPE_CHECKING:
    from typing import Any

    from sessionizer.control.status.driver_status import State

UID = "abc123"


def driver_status(
    state: State,
    now: int,
    *,
    launched_ms: int,
    heard_ms: int,
    present: bool | None = None,
    batch_id: int | None = None,
    **more: Any,
) -> DriverStatus:
    """A driver that was launched then and heard of last then. A machine that we see ran it."""
    beat = Heartbeat(UID, heard_ms, launched_ms, Phase.RUNNING, batch_id=batch_id, lineage=more.pop("lineage", None))
    return DriverStatus(
        uid=UID,
        at=now,
        state=state,
        launch=LaunchRecord(uid=UID, at=launched_ms, log=more.get("log") or ""),
        alive=state.is_live if present is None else present,
        heartbeat=beat,
        **more,
    )
