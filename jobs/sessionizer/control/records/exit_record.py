"""``exit.<uid>.json``: how a driver ended, in its own words. One that was killed has none."""

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
"""Characters of ``message`` that are kept: a JVM's nested stack traces reach megabytes."""


class ExitOutcome(StrEnum):
    """How a driver ended. STOPPED: at a batch boundary, as it was asked to. FINISHED: at the end of its input."""

    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    LEASE_LOST = "lease_lost"

    @classmethod
    def _missing_(cls, value: object) -> ExitOutcome | None:
        """An earlier release wrote a stop as ``drained``."""
        return cls.STOPPED if value == "drained" else None


@dataclass(frozen=True, slots=True)
class ExitRecord(JsonRecord):
    """The end of driver ``uid`` at ``at`` (epoch ms); ``terminal`` means that a restart cannot help."""

    uid: str
    at: int
    outcome: ExitOutcome
    terminal: bool = False
    error_type: str | None = None
    message: str | None = None
    batch_id: int | None = None


def write_exit(home: StreamHome, record: ExitRecord) -> None:
    """Leave ``record`` as the driver's last act: from then on its lease counts as free. Raises UnwritablePath.

    Its message is kept without credentials.
    """
    message = redacted_and_cut(record.message, MESSAGE_LIMIT) if record.message else record.message
    write_record(home.control_files.exit(record.uid), replace(record, message=message))


def read_exit(home: StreamHome, uid: str) -> ExitRecord | None:
    """How driver ``uid`` ended; None if it did not say so, or the file is damaged."""
    return examine_exit(home, uid).value


def examine_exit(home: StreamHome, uid: str) -> RecordReading[ExitRecord]:
    """As ``read_exit``, with the damage."""
    return examine_record(ExitRecord, home.control_files.exit(uid))
