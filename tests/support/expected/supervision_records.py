"""What the supervisor has put on record of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.process_records import LaunchRecord, read_launch
from sessionizer.control.records.supervision_records import SUPERVISION_FILE, SupervisionRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


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
