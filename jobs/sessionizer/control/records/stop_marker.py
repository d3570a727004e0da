"""The file ``stop.<uid>``, which asks a driver to end at its next batch boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import is_there, unreachable
from sessionizer.home.json_file import write_record
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, slots=True)
class StopRequest(JsonRecord):
    """A request to stop driver ``uid``, since ``at`` (epoch ms), and the reason."""

    uid: str
    at: int
    why: str


def request_stop(home: StreamHome, uid: str, why: str) -> None:
    """Ask driver ``uid`` to stop. Harmless when repeated, or when the driver is gone.

    Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    write_record(home.control_files.stop(uid), StopRequest(uid, epoch_ms(), why))


def stop_requested(home: StreamHome, uid: str) -> bool:
    """Whether driver ``uid`` was asked to stop. The file's presence is the request, so ``touch`` works by hand.

    Raises ControlUnreachable.
    """
    path = home.control_files.stop(uid)
    try:
        return is_there(path)
    except OSError as error:
        raise unreachable(path, error) from error
