"""``stop.<uid>``: asks one driver to end at its next batch boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.home.atomic_file import write_json
from sessionizer.home.clock import epoch_ms
from sessionizer.home.json_record import JsonRecord, read_record
from sessionizer.home.stream_home import checked_identifier

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, slots=True)
class StopRequest(JsonRecord):
    """Who is to stop, since when (epoch ms) and why."""

    uid: str
    at: int
    why: str


def request_stop(home: StreamHome, uid: str, why: str) -> None:
    """Ask driver ``uid`` to stop. Harmless when repeated or when it is gone. Raises UnwritablePath."""
    write_json(_path(home, uid), StopRequest(uid, epoch_ms(), why).to_json())


def stop_requested(home: StreamHome, uid: str) -> bool:
    """Whether driver ``uid`` was asked to stop. The file's presence is the request, so ``touch`` works by hand."""
    return _path(home, uid).exists()


def stop_reason(home: StreamHome, uid: str) -> str | None:
    """Why driver ``uid`` was asked to stop, if it was and a reason was given."""
    request = read_record(StopRequest, _path(home, uid))
    return request.why if request else None


def _path(home: StreamHome, uid: str) -> Path:
    return home.control / f"stop.{checked_identifier('uid', uid)}"
