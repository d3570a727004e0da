"""The file ``health.json``: whether readers could use the stream's tables, its ailment, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sessionizer.home.json_file import read_record, write_record
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


class Ailment(StrEnum):
    """The ailments of a stream."""

    STALE = "stale"
    LAGGING = "lagging"


@dataclass(frozen=True, kw_only=True, slots=True)
class Health(JsonRecord):
    """The stream was last seen working at ``worked_at``, and has had its ``ailment`` ``since`` then (epoch ms)."""

    worked_at: int
    ailment: Ailment | None = None
    since: int | None = None


def read_health(home: StreamHome) -> Health | None:
    """Return the record. None if there is none, or it is unreadable."""
    return read_record(Health, home.control_files.health)


def write_health(home: StreamHome, health: Health) -> None:
    """Write the record. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    write_record(home.control_files.health, health, durable=False)
