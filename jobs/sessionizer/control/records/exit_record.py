"""The file ``exit.<uid>.json``: the outcome that a driver wrote at its end. A killed driver has none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.home.json_file import RecordReading, examine_record, write_record
from sessionizer.home.json_record import JsonRecord
from sessionizer.redaction import redacted_and_cut

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

    @classmethod
    def _missing_(cls, value: object) -> ExitOutcome | None:
        """Read ``drained``, which an earlier release wrote for a stop."""
        return cls.STOPPED if value == "drained" else None


@dataclass(frozen=True, slots=True)
class ExitRecord(JsonRecord):
    """The end of driver ``uid`` at ``at`` (epoch ms). ``terminal`` means that a restart cannot help."""

    uid: str
    at: int
    outcome: ExitOutcome
    terminal: bool = False
    error_type: str | None = None
    message: str | None = None
    batch_id: int | None = None


def write_exit(home: StreamHome, record: ExitRecord) -> None:
    """Write ``record`` as the driver's last act. From then on its lease counts as free.

    Credentials are removed from its message. Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    message = redacted_and_cut(record.message, MESSAGE_LIMIT) if record.message else record.message
    write_record(home.control_files.exit(record.uid), replace(record, message=message))


def read_exit(home: StreamHome, uid: str) -> ExitRecord | None:
    """Return the exit record of driver ``uid``. None if there is none, or the file is damaged."""
    return examine_exit(home, uid).value


def examine_exit(home: StreamHome, uid: str) -> RecordReading[ExitRecord]:
    """Read the exit record of driver ``uid``. The result tells an absent file from a damaged one."""
    return examine_record(ExitRecord, home.control_files.exit(uid))
