"""Whether the data root answers and can be written, and what an error of its file system comes to."""

from __future__ import annotations

import re
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.errors import InvalidSpec, StoreUnreachable
from sessionizer.home.atomic_file import TEMPORARY_SUFFIX
from sessionizer.home.data_root import ALLOWED, DATA_VARIABLE, uri_of
from sessionizer.home.room import first_line, is_away, unwritable

if TYPE_CHECKING:
    from sessionizer.errors import ControlUnreachable, DiskFull, UnwritablePath
    from sessionizer.home.data_root import DataPath

ANSWERS_WITHIN_S: Final = 10.0
DATA_ROOT: Final = "the data root"
_NUMBER: Final = re.compile(r"\(os error (\d+)\)")
"""How hdfs-native tells what the system said."""


def make_writable(folder: DataPath, purpose: str) -> None:
    """Make ``folder`` and prove that it can be written.

    Raises UnwritablePath, DiskFull, StoreUnreachable, and InvalidSpec where nothing here can read such a URI.
    """
    _require_reachable(folder)
    probe = folder / f".{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # permission bits lie (root, read-only mounts, quotas), so a file is really created
        probe.write_bytes(b"0")
        probe.unlink()
    except OSError as error:
        raise refused(folder, purpose, error) from error
    except (ImportError, ValueError) as error:  # fsspec lacks the package that reads it, or knows none
        raise InvalidSpec(DATA_VARIABLE, uri_of(folder), f"{ALLOWED} ({first_line(error)})") from error


def refused(
    path: DataPath, purpose: str, error: OSError
) -> ControlUnreachable | StoreUnreachable | DiskFull | UnwritablePath:
    """The error that ``error`` comes to for who has to write ``path``, wherever that is."""
    number = _NUMBER.search(str(error))
    if not isinstance(path, Path) and (is_away(error) or (number and is_away(OSError(int(number[1]), "")))):
        return StoreUnreachable(uri_of(path), purpose, first_line(error))
    return unwritable(uri_of(path), purpose, error)


def _require_reachable(folder: DataPath) -> None:
    """HDFS's client tries again for minutes where nobody listens; a driver is not to be silent for so long."""
    if isinstance(folder, Path):
        return
    host, port = folder.storage_options.get("host"), folder.storage_options.get("port")
    if not host or not port:
        return
    try:
        socket.create_connection((str(host), int(port)), timeout=ANSWERS_WITHIN_S).close()
    except OSError as error:
        raise StoreUnreachable(uri_of(folder), DATA_ROOT, error.strerror or str(error)) from error
