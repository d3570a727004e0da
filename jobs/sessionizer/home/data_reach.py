"""Checks that the data root and the control root answer and can be written, and the translation of their errors."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer.errors import InvalidSpec, StoreUnreachable
from sessionizer.home.control_root import ALLOWED_CONTROL, CONTROL_VARIABLE
from sessionizer.home.control_store import store_at
from sessionizer.home.data_access import is_store_away, make_data_folder, remove_data, write_data_text
from sessionizer.home.disk.disk_space import first_line, unwritable
from sessionizer.home.disk.local_files import TEMPORARY_SUFFIX, close_to_others
from sessionizer.home.roots import ALLOWED_DATA, DATA_VARIABLE, uri_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from upath import UPath

    from sessionizer.errors import ControlUnreachable, DiskFull, UnwritablePath
    from sessionizer.home.roots import ControlPath, DataPath


def make_writable(folder: DataPath, purpose: str) -> None:
    """Make ``folder`` and prove that it can be written.

    Raises UnwritablePath, DiskFull, StoreUnreachable, ControlUnreachable, and InvalidSpec if no installed package reads
    such a URI.
    """
    probe = folder / f".{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"
    try:
        make_data_folder(folder, exist_ok=True)
        # permission bits lie (root, read-only mounts, quotas), so a file is really created
        write_data_text(probe, "0")
        remove_data(probe)
    except (ImportError, ValueError) as error:  # fsspec lacks the package that reads it, or knows none
        raise InvalidSpec(DATA_VARIABLE, uri_of(folder), f"{ALLOWED_DATA} ({first_line(error)})") from error
    except StoreUnreachable as error:
        raise StoreUnreachable(uri_of(folder), purpose, error.detail) from error
    except OSError as error:
        raise translate_refusal(folder, purpose, error) from error


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
    if not isinstance(path, Path) and is_store_away(error):
        return StoreUnreachable(uri_of(path), purpose, error.strerror or first_line(error))
    return unwritable(uri_of(path), purpose, error)
