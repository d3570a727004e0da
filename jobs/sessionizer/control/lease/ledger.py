"""``leases/<token>.json``: who drives the stream. Tokens only grow; the highest one is the lease.

A file is never changed once its name exists, and the highest is never removed, so a token that was given out stays so.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.process_identity import ProcessIdentity
from sessionizer.errors import ControlUnreachable, DiskFull, UnwritablePath
from sessionizer.home.atomic_file import create_json, write_json
from sessionizer.home.json_record import JsonRecord, RecordReading, examine_record

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.home.stream_home import StreamHome

KEPT_TOKENS: Final = 8
_FILE_NAME: Final = re.compile(r"(\d{8,18})\.json")


class Vacancy(StrEnum):
    """Why a lease has no owner: its driver gave it up, or somebody took it away."""

    RELEASED = "released"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class LeaseRecord(JsonRecord):
    """One token. Its owner is ``uid``, unless there is a ``vacancy``: then that was the last one (None: unknown).

    Times are epoch ms; ``process_started`` is in clock ticks since boot.
    """

    token: int
    acquired_at: int
    uid: str | None = None
    pid: int | None = None
    process_started: int | None = None
    host: str | None = None
    boot_id: str | None = None
    pid_namespace: str | None = None
    vacancy: Vacancy | None = None
    vacated_at: int | None = None

    @property
    def process(self) -> ProcessIdentity | None:
        """The (last) owner's process, if the record says."""
        if self.pid is None or self.host is None:
            return None
        return ProcessIdentity(self.pid, self.process_started, self.host, self.boot_id, self.pid_namespace)


def owned_by(token: int, uid: str, process: ProcessIdentity, at_ms: int) -> LeaseRecord:
    """The record of a lease that driver ``uid`` takes at ``at_ms``."""
    return LeaseRecord(
        token, at_ms, uid, process.pid, process.started, process.host, process.boot_id, process.namespace
    )


def highest_token(home: StreamHome) -> int:
    """The highest token given out, 0 if none. One directory listing. Raises ControlUnreachable."""
    try:
        names = [path.name for path in home.leases.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise ControlUnreachable(home.leases, error.strerror or str(error)) from error
    return max(map(_token, names), default=0)


def examine_token(home: StreamHome, token: int) -> RecordReading[LeaseRecord]:
    """The record of ``token``, telling an absent one from a damaged one. Never raises."""
    return examine_record(LeaseRecord, _path(home, token))


def read_lease(home: StreamHome) -> LeaseRecord | None:
    """The lease; None if none was ever given out. Raises ControlUnreachable.

    A damaged record reads as one of an unknown owner: somebody holds it, only the heartbeat can say whether they live.
    """
    while token := highest_token(home):
        reading = examine_token(home, token)
        if reading.value is not None:
            return reading.value
        if reading.damage is not None:
            return LeaseRecord(token, _changed_at(_path(home, token)))
        # It was pruned since it was listed, so there is a higher one.
    return None


def give_out(home: StreamHome, record: LeaseRecord) -> bool:
    """Make ``record`` the lease; False if another was quicker. Raises UnwritablePath, ControlUnreachable."""
    if not create_json(_path(home, record.token), record.to_json()):
        return False
    if highest_token(home) > record.token:
        # We were so slow that our token had been given out, overtaken and pruned.
        _remove(_path(home, record.token))
        return False
    # A full disk must not cost the lease that was just won: this copy is only for people.
    with suppress(UnwritablePath, DiskFull):
        write_json(home.control / "lease.json", record.to_json(), durable=False)
    _prune(home, record.token)
    return True


def _prune(home: StreamHome, newest: int) -> None:
    with suppress(OSError):
        for path in home.leases.iterdir():
            if 0 < _token(path.name) <= newest - KEPT_TOKENS:
                _remove(path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0


def _token(name: str) -> int:
    """The token a file is named for; 0 for anything else, such as a file still being written."""
    match = _FILE_NAME.fullmatch(name)
    return int(match[1]) if match else 0


def _path(home: StreamHome, token: int) -> Path:
    return home.leases / f"{token:08d}.json"
