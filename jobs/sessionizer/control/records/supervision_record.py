"""``supervision.json``: how the last starts of a stream's drivers went. Airflow writes it, ``status`` reads it, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.home.json_file import read_record, write_record
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, kw_only=True, slots=True)
class SupervisionRecord(JsonRecord):
    """The newest failure, and what follows from it. Times are epoch ms.

    ``failures`` in a row count against the restart budget, ``attempts`` in a row do not: a transient cause foiled
    them, since ``waiting_since``; ``waiting_told`` says whether people know. ``counted_uid`` is the driver of the
    newest failure; ``settled_uid`` a dead driver that a person has dealt with: how it ended says nothing any more. A
    driver that cannot be seen has given no sign since ``unseen_since`` by our own clock; that was of ``unseen_beat``.
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
    """What is on record; None when there is nothing, or nothing readable."""
    return read_record(SupervisionRecord, home.control_files.supervision)


def write_supervision(home: StreamHome, record: SupervisionRecord) -> None:
    """Raises UnwritablePath: the control directory cannot be written."""
    write_record(home.control_files.supervision, record)
