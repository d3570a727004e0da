"""Operations on the records of a control root, wherever it is. At a path the operating system does them."""

from __future__ import annotations

import os
from fnmatch import filter as fitting
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sessionizer.errors import ControlUnreachable
from sessionizer.home.cached_value import ReadableStore, cache_reads
from sessionizer.home.disk.disk_space import first_line, is_away, unreadable, unwritable
from sessionizer.home.disk.local_files import create_file, make_private, open_regular, replace_file
from sessionizer.home.roots import uri_of
from sessionizer.home.uri_store import UriStore

if TYPE_CHECKING:
    from sessionizer.errors import DiskFull, UnreadablePath, UnwritablePath
    from sessionizer.home.roots import ControlPath


class ControlStore(ReadableStore, Protocol):
    """The file or folder at a path of a control root. Operations raise OSError, FileNotFoundError if it is absent."""

    repeats_calls: bool
    """Whether a client repeats a call whose answer was lost. Then the content of a created file must be unique."""

    def replace(self, content: bytes, *, durable: bool) -> None:
        """Replace the file, without a moment at which it is absent. ``durable`` makes it survive a power cut."""

    def create(self, content: bytes) -> bool:
        """Create the file unless it exists. Returns True for the one caller that did."""

    def remove(self) -> None:
        """Delete the file, if it exists."""

    def make_folder(self) -> None:
        """Make the folder and its parents, closed to others. Harmless if it exists."""

    def changed_at_ms(self) -> int:
        """Return the time at which the file was written, in epoch ms by its store's clock."""

    def refuse(self, purpose: str, error: OSError) -> ControlUnreachable | DiskFull | UnwritablePath:
        """Translate ``error`` from a write into one of our errors."""

    def is_away(self, error: OSError) -> bool:
        """Whether ``error`` from a read leaves the content unknown."""


class LocalStore:
    """The file or folder at ``path`` of this machine: see ``ControlStore``."""

    repeats_calls = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self.exists, self.is_away = path.exists, is_away

    def read(self) -> bytes:
        """Read the file."""
        with open_regular(self._path) as file:
            return file.read()

    def replace(self, content: bytes, *, durable: bool) -> None:
        """Replace the file."""
        replace_file(self._path, content, durable=durable)

    def create(self, content: bytes) -> bool:
        """Create the file unless it exists."""
        return create_file(self._path, content)

    def names(self) -> list[str]:
        """List the names in the folder."""
        return os.listdir(self._path)  # noqa: PTH208  a path for each name would cost more than the listing

    def remove(self) -> None:
        """Delete the file, if it exists."""
        self._path.unlink(missing_ok=True)

    def make_folder(self) -> None:
        """Make the folder and its parents."""
        make_private(self._path)

    def changed_at_ms(self) -> int:
        """Return the time of the last write."""
        return self._path.stat().st_mtime_ns // 1_000_000

    def refuse(self, purpose: str, error: OSError) -> ControlUnreachable | DiskFull | UnwritablePath:
        """Translate ``error`` from a write."""
        return unwritable(self._path, purpose, error)


def store_at(path: ControlPath) -> ControlStore:
    """Return the store of ``path``. No other function asks where a record is."""
    store: ControlStore = LocalStore(path) if isinstance(path, Path) else UriStore(path)
    return cache_reads(store, path)


def record_names(folder: ControlPath, pattern: str = "*") -> list[str]:
    """List the names in ``folder`` that fit the ``pattern``, in order. Empty without a folder. Raises OSError."""
    try:
        return sorted(fitting(store_at(folder).names(), pattern))
    except (FileNotFoundError, NotADirectoryError):
        return []


def unreachable(path: ControlPath, error: OSError) -> ControlUnreachable | UnreadablePath:
    """Return the error that says that ``path`` cannot be reached just now, or may not be read."""
    if isinstance(error, PermissionError):
        return unreadable(path, error)
    return ControlUnreachable(uri_of(path), error.strerror or first_line(error))
