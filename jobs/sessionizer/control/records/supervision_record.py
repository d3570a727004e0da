"""The file ``supervision.json``: the results of the last driver starts. Airflow writes it, ``status`` reads it, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.home.json_file import read_record, write_record
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, kw_only=True, slots=True)
class SupervisionRecord(JsonRecord):
    """The newest failure, and its consequences. Times are epoch ms.

    ``failures`` in a row count against the restart budget. ``attempts`` in a row do not, because they failed for a
    transient cause, since ``waiting_since``. ``waiting_told`` tells whether a notification of it was sent.
    ``counted_uid`` is the driver of the newest failure. ``settled_uid`` is a dead driver that a user has dealt with, so
    its end counts no more. A driver that cannot be seen has given no sign since ``unseen_since`` by our own clock, and
    its last sign is ``unseen_beat``.
    """

    failures: int = 0
    attempts: int = 0
    last_failure: str = ""
    last_failure_ms: int = 0
    cause: str | None = None
    remedy: str = ""
    restart_at: int = 0
    counted_uid: str | None = None
    settled_uid: str | None = None
    waiting_since: int | None = None
    unseen_since: int | None = None
    unseen_beat: int | None = None
    waiting_told: bool = False
    given_up: bool = False


def read_supervision(home: StreamHome) -> SupervisionRecord | None:
    """Return the record. None if there is none, or it is unreadable."""
    return read_record(SupervisionRecord, home.control_files.supervision)


def write_supervision(home: StreamHome, record: SupervisionRecord) -> None:
    """Write the record. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    write_record(home.control_files.supervision, record)
