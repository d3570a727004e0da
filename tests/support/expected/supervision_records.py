"""What the supervisor has put on record of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.supervision_record import SupervisionRecord, read_supervision

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


def recorded(home: StreamHome) -> SupervisionRecord:
    return read_supervision(home) or SupervisionRecord()
