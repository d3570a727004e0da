"""The files of a driver's end: ``stop.<uid>`` asks for it, ``exit.<uid>.json`` has the outcome.

A killed driver leaves no exit record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import store_at, unreachable
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile
from sessionizer.redaction import redact_and_cut

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

MESSAGE_LIMIT: Final = 8_000
"""Number of characters of ``message`` that are kept: a JVM's nested stack traces reach megabytes."""


class ExitOutcome(StrEnum):
    """The outcome of a driver. STOPPED: at a batch boundary, as requested. FINISHED: at the end of its input."""

    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    LEASE_LOST = "lease_lost"


@dataclass(frozen=True, slots=True)
class ExitRecord(JsonRecord):
    """The end of driver ``uid`` at ``at`` (epoch ms). ``terminal`` means that a restart cannot help."""

    uid: str
    at: Moment
    outcome: ExitOutcome
    terminal: bool = False
    error_type: str | None = None
    message: str | None = None
    batch_id: int | None = None


EXIT_FILE: Final = ControlFile("exit.{}.json", ExitRecord, key="uid")


def write_exit(home: StreamHome, record: ExitRecord) -> None:
    """Write ``record`` as the driver's last act. From then on its lease counts as free.

    Credentials are removed from its message. Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    message = redact_and_cut(record.message, MESSAGE_LIMIT) if record.message else record.message
    EXIT_FILE.of(home, record.uid).write(replace(record, message=message))


@dataclass(frozen=True, slots=True)
class StopRequest(JsonRecord):
    """A request to stop driver ``uid``, since ``at`` (epoch ms), and the reason."""

    uid: str
    at: Moment
    why: str


STOP_FILE: Final = ControlFile("stop.{}", StopRequest, key="uid")


def request_stop(home: StreamHome, uid: str, why: str) -> None:
    """Ask driver ``uid`` to stop. Harmless when repeated, or when the driver is gone.

    Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    STOP_FILE.of(home, uid).write(StopRequest(uid, epoch_ms(), why))


def stop_requested(home: StreamHome, uid: str) -> bool:
    """Whether driver ``uid`` was asked to stop. The file's presence is the request, so ``touch`` works by hand.

    Raises ControlUnreachable.
    """
    path = STOP_FILE.of(home, uid).path
    try:
        return store_at(path).exists()
    except OSError as error:
        raise unreachable(path, error) from error
