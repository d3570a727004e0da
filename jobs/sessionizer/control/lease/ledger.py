"""The files ``leases/<token>.json``: each token's owner. Tokens only grow, and the highest one is the lease.

A file is never changed once its name exists, and the highest is never deleted. So a token is given out only once.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.lease_record import LEASE_COPY, LeaseRecord, lease_file
from sessionizer.errors import ControlUnreachable, DiskFull, UnwritablePath
from sessionizer.home.control_store import record_names, store_at, unreachable

if TYPE_CHECKING:
    from sessionizer.home.roots import ControlPath
    from sessionizer.home.stream_home import StreamHome

KEPT_TOKENS: Final = 8
_FILE_NAME: Final = re.compile(r"(\d{8,18})\.json")


def highest_token(home: StreamHome) -> int:
    """Return the highest token given out, 0 if none. One directory listing. Raises ControlUnreachable."""
    try:
        return max(map(_token, record_names(home.leases)), default=0)
    except OSError as error:
        raise unreachable(home.leases, error) from error


def read_lease(home: StreamHome) -> LeaseRecord | None:
    """Return the lease, or None if none was ever given out. Raises ControlUnreachable.

    A damaged record counts as a lease with an unknown owner. Only the heartbeat can tell whether that owner lives.
    """
    while token := highest_token(home):
        file = lease_file(home, token)
        reading = file.examine()
        if reading.value is not None:
            return reading.value
        if reading.error is not None:
            with suppress(OSError):
                return LeaseRecord(token, store_at(file.path).changed_at_ms())
            return LeaseRecord(token, 0)
        # It was pruned since it was listed, so there is a higher one.
    return None


def write_lease(home: StreamHome, record: LeaseRecord) -> bool:
    """Make ``record`` the lease. Returns False if another process was faster.

    Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    file = lease_file(home, record.token)
    if not file.create(record):
        return False
    if highest_token(home) > record.token:
        # We were so slow that our token had been given out, overtaken and pruned.
        _remove(file.path)
        return False
    # A full disk must not cost the lease that was just won: this copy is only for people.
    with suppress(UnwritablePath, DiskFull, ControlUnreachable):
        LEASE_COPY.of(home).write(record)
    _prune(home, record.token)
    return True


def _prune(home: StreamHome, newest: int) -> None:
    with suppress(OSError):
        for name in record_names(home.leases):
            if 0 < _token(name) <= newest - KEPT_TOKENS:
                _remove(home.leases / name)


def _remove(path: ControlPath) -> None:
    with suppress(OSError):
        store_at(path).remove()


def _token(name: str) -> int:
    """Return the token in a file's name. 0 for any other file, such as one that is still being written."""
    match = _FILE_NAME.fullmatch(name)
    return int(match[1]) if match else 0
