"""Checks that the data root and the control root answer and can be written, and the translation of their errors."""

from __future__ import annotations

import re
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.errors import InvalidSpec, StoreUnreachable
from sessionizer.home.control_store import store_at
from sessionizer.home.disk.disk_space import first_line, is_away, unwritable
from sessionizer.home.disk.local_files import TEMPORARY_SUFFIX, close_to_others
from sessionizer.home.roots import ALLOWED_CONTROL, ALLOWED_DATA, CONTROL_VARIABLE, DATA_VARIABLE, uri_of
from sessionizer.home.uri_store import translate_to_os_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from upath import UPath

    from sessionizer.errors import ControlUnreachable, DiskFull, UnwritablePath
    from sessionizer.home.roots import ControlPath, DataPath

ANSWERS_WITHIN_S: Final = 10.0
DATA_ROOT: Final = "the data root"
_NUMBER: Final = re.compile(r"\(os error (\d+)\)")
"""Pattern of the system's error number in hdfs-native's messages."""


def make_writable(folder: DataPath, purpose: str) -> None:
    """Make ``folder`` and prove that it can be written.

    Raises UnwritablePath, DiskFull, StoreUnreachable, ControlUnreachable, and InvalidSpec if no installed package reads
    such a URI.
    """
    require_reachable(folder)
    probe = folder / f".{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # permission bits lie (root, read-only mounts, quotas), so a file is really created
        probe.write_bytes(b"0")
        probe.unlink()
    except (ImportError, ValueError) as error:  # fsspec lacks the package that reads it, or knows none
        raise InvalidSpec(DATA_VARIABLE, uri_of(folder), f"{ALLOWED_DATA} ({first_line(error)})") from error
    except Exception as error:
        raise translate_refusal(folder, purpose, translate_to_os_error(error)) from error


def make_writable_control(folders: Iterable[ControlPath]) -> None:
    """Make folders of records and prove that they can be written.

    In a store both primitives are tried, in the first folder.

    Raises UnwritablePath, DiskFull, ControlUnreachable if the store does not answer, and InvalidSpec if no installed
    package reads such a URI. Raises InvalidSpec also if the store creates a file that exists, because two drivers would
    then have one lease.
    """
    stores: list[UPath] = []
    for folder in folders:
        if isinstance(folder, Path):
            make_writable(folder, f"the stream's {folder.name} directory")
            close_to_others(folder)
        else:
            stores.append(folder)
    if stores:
        _require_primitives(stores)


def _require_primitives(folders: Sequence[UPath]) -> None:
    folder, purpose = folders[0], f"the stream's {folders[0].name} directory"
    probe = folder / f".{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"
    try:
        for each in folders:
            store_at(each).make_folder()
        created = store_at(probe).create(_content()), store_at(probe).create(_content())
        store_at(probe).replace(_content(), durable=True)
        store_at(probe).remove()
    except OSError as error:
        raise store_at(folder).refuse(purpose, error) from error
    except (ImportError, ValueError) as error:  # fsspec lacks the package that reads it
        raise InvalidSpec(CONTROL_VARIABLE, uri_of(folder), f"{ALLOWED_CONTROL} ({first_line(error)})") from error
    if created != (True, False):
        detail = "this store has created a file that exists: conditional puts are not to be had there"
        raise InvalidSpec(CONTROL_VARIABLE, uri_of(folder), f"{ALLOWED_CONTROL} ({detail})")


def _content() -> bytes:
    return secrets.token_bytes(8)  # unique to a call, see ``ControlStore``


def translate_refusal(
    path: DataPath, purpose: str, error: OSError
) -> ControlUnreachable | StoreUnreachable | DiskFull | UnwritablePath:
    """Translate ``error`` from writing to ``path``, which may be a path or a URI, into one of our errors."""
    number = _NUMBER.search(str(error))
    if not isinstance(path, Path) and (is_away(error) or (number and is_away(OSError(int(number[1]), "")))):
        return StoreUnreachable(uri_of(path), purpose, error.strerror or first_line(error))
    return unwritable(uri_of(path), purpose, error)


def require_reachable(folder: DataPath, purpose: str = DATA_ROOT) -> None:
    """Connect to the store. Without this, HDFS's client tries for minutes when no server listens.

    Raises StoreUnreachable.
    """
    if isinstance(folder, Path):
        return
    host, port = folder.storage_options.get("host"), folder.storage_options.get("port")
    if not host or not port:
        return
    try:
        socket.create_connection((str(host), int(port)), timeout=ANSWERS_WITHIN_S).close()
    except OSError as error:
        raise StoreUnreachable(uri_of(folder), purpose, error.strerror or str(error)) from error
