"""``health.json``: whether the stream was of use to those who read its tables, and what ails it since when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sessionizer.home.json_file import read_record, write_record
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


class Ailment(StrEnum):
    """What a stream may suffer from."""

    STALE = "stale"
    LAGGING = "lagging"


@dataclass(frozen=True, kw_only=True, slots=True)
class Health(JsonRecord):
    """The stream was last seen working at ``worked_at``, and has had its ``ailment`` ``since`` then (epoch ms)."""

    worked_at: int
    ailment: Ailment | None = None
    since: int | None = None


def read_health(home: StreamHome) -> Health | None:
    """What is on record; None when there is nothing, or nothing readable."""
    return read_record(Health, home.control_files.health)


def write_health(home: StreamHome, health: Health) -> None:
    """Raises UnwritablePath: the control directory cannot be written."""
    write_record(home.control_files.health, health, durable=False)
