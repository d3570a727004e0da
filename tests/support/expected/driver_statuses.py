"""The status of a driver, from its state and a few moments."""

import logging
from typing import Any

from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.process_records import LaunchRecord, read_launch
from sessionizer.control.records.supervision_records import SUPERVISION_FILE, SupervisionRecord
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.home.stream_home import StreamHome

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


def recorded(home: StreamHome) -> SupervisionRecord:
    return SUPERVISION_FILE.of(home).read() or SupervisionRecord()


def launched(home: StreamHome) -> LaunchRecord:
    """The newest launch of a driver."""
    launch = read_launch(home)
    assert launch is not None
    return launch


def works(home: StreamHome) -> bool:
    """Whether the driver that was launched last has come to a batch."""
    beat, launch = HEARTBEAT_FILE.of(home).read(), read_launch(home)
    return beat is not None and launch is not None and beat.uid == launch.uid and beat.batch_id is not None


class Heard(list[str]):
    """The lines, and in `levels` how loud each was said."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int] = []

    def __call__(self, line: str, level: int = logging.INFO) -> None:
        self.append(line)
        self.levels.append(level)

    def at(self, level: int) -> list[str]:
        """The lines of just this level."""
        return [line for line, its in zip(self, self.levels, strict=True) if its == level]
