"""Single files and folders of the data root: read, write, ask whether they exist.

A ``DataPath`` has no method that opens anything, so each access is a function of this module or of ``data_files``. They
raise FileNotFoundError if a file is absent, StoreUnreachable if its store does not answer, and OSError if anything else
is wrong. So a store that is away is never taken for one without the file, although the clients of stores have errors of
their own, and fsspec's ``isdir`` and ``find`` hide them.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from sessionizer.errors import DamagedFile, SessionizerError, StoreUnreachable
from sessionizer.home.disk.disk_space import first_line, is_away
from sessionizer.home.disk.local_files import close_to_others, open_regular
from sessionizer.home.roots import ON_HADOOP, store_path, uri_of
from sessionizer.home.uri_store import require_listener, translate_to_os_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.home.roots import DataPath

ANSWERS_WITHIN_S: Final = 10.0
_OF_THE_FILE: Final = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
_NUMBER: Final = re.compile(r"\(os error (\d+)\)")
"""Pattern of the system's error number in hdfs-native's messages."""


@contextmanager
def reaching(path: DataPath) -> Iterator[None]:
    """Let the block, which reads or writes ``path``, raise StoreUnreachable or OSError in place of a client's errors.

    If the path names the host and port of a name node, connect first: HDFS's client tries for minutes. Raises
    ImportError and ValueError as they come: no installed package reads such a URI.
    """
    if isinstance(path, Path):
        yield
        return
    try:
        require_listener(store_path(path), ANSWERS_WITHIN_S)
        yield
    except (ImportError, ValueError, SessionizerError):
        raise
    except Exception as error:
        refusal = translate_to_os_error(error)
        if is_store_away(refusal):
            detail = refusal.strerror or first_line(refusal)
            raise StoreUnreachable(uri_of(path), "the data", detail) from error
        if refusal is error:
            raise
        raise refusal from error


def require_reachable(folder: DataPath) -> None:
    """Ask a name node before a long work begins. Raises StoreUnreachable."""
    with reaching(folder):
        pass


def is_store_away(error: OSError) -> bool:
    """Whether the error of a store's client may pass by itself. Some are timeouts without a number."""
    if isinstance(error, _OF_THE_FILE):
        return False
    number = _NUMBER.search(str(error))
    if number is not None:
        return is_away(OSError(int(number[1]), ""))
    return error.errno is None or is_away(error)


def list_stored_sizes(folder: DataPath) -> Iterator[tuple[str, int]]:
    """Yield each file below a ``folder`` of a store: its name relative to it, with slashes, and its bytes.

    Also hidden ones. None without a folder. Raises StoreUnreachable, OSError.
    """
    root = store_path(folder).path.rstrip("/")
    for path, about in _list_tree(folder).items():
        if not path.endswith("/"):  # what marks a folder in an object store
            yield path[path.index(root) + len(root) + 1 :], int(about["size"])


def _list_tree(folder: DataPath) -> dict[str, dict[str, Any]]:
    """List the files below a folder of a store as fsspec describes them."""
    there = store_path(folder)
    try:
        with reaching(folder):
            if there.protocol in ON_HADOOP:
                return dict(_walk(there.fs, there.path))
            return cast("dict[str, dict[str, Any]]", there.fs.find(there.path, detail=True))
    except FileNotFoundError:
        if data_exists(folder):
            raise
        return {}


def _walk(system: Any, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401  as fsspec has it
    """Yield each file below ``folder``. fsspec's own ``find`` omits a folder that it cannot list."""
    for about in system.ls(folder, detail=True):
        if about["type"] == "directory":
            yield from _walk(system, about["name"])
        else:
            yield about["name"], about


def data_exists(path: DataPath) -> bool:
    """Whether there is such a file or folder. Raises StoreUnreachable, OSError."""
    return path.exists() if isinstance(path, Path) else _information(path) is not None


def is_folder(path: DataPath) -> bool:
    """Whether there is such a folder. Raises StoreUnreachable, OSError."""
    if isinstance(path, Path):
        return path.is_dir()
    about = _information(path)
    return about is not None and about["type"] == "directory"


def size_of(path: DataPath) -> int:
    """Return the bytes of a file. Raises StoreUnreachable, OSError."""
    if isinstance(path, Path):
        return path.stat().st_size
    about = _information(path)
    if about is None:
        raise FileNotFoundError(store_path(path).path)
    return int(about["size"])


def _information(path: DataPath) -> dict[str, Any] | None:
    """Return what fsspec knows of a path in a store, None if there is nothing."""
    there = store_path(path)
    try:
        with reaching(path):
            return cast("dict[str, Any]", there.fs.info(there.path))
    except FileNotFoundError:
        return None


@contextmanager
def open_data(path: DataPath, mode: str = "rb") -> Iterator[BinaryIO]:
    """Open a file for the block, which only reads or writes it. ``mode``: ``rb`` or ``wb``.

    Raises StoreUnreachable, OSError.
    """
    with reaching(path):
        regular = isinstance(path, Path) and mode == "rb"
        with open_regular(cast("Path", path)) if regular else cast("Path", path).open(mode) as opened:
            yield cast("BinaryIO", opened)


def read_data(path: DataPath) -> bytes:
    """Read a file. Raises StoreUnreachable, OSError."""
    with reaching(path):
        if isinstance(path, Path):
            with open_regular(path) as file:
                return file.read()
        return store_path(path).read_bytes()


def read_data_text(path: DataPath) -> str:
    """Read a text file. Raises StoreUnreachable, OSError, and DamagedFile if it is not UTF-8."""
    try:
        return read_data(path).decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(uri_of(path), f"it is no text ({error.reason} at byte {error.start})") from error


def write_data_text(path: DataPath, text: str) -> None:
    """Write a text file, whose folder must exist. Raises StoreUnreachable, OSError."""
    with reaching(path):
        cast("Path", path).write_bytes(text.encode())


def remove_data(path: DataPath) -> None:
    """Delete a file. Harmless if there is none. Raises StoreUnreachable, OSError."""
    with reaching(path):
        cast("Path", path).unlink(missing_ok=True)


def make_data_folder(folder: DataPath, *, exist_ok: bool = False) -> None:
    """Make a folder and its parents. Raises StoreUnreachable, OSError."""
    with reaching(folder):
        cast("Path", folder).mkdir(parents=True, exist_ok=exist_ok)


def make_private_data(folder: DataPath) -> None:
    """Make a folder and its parents, and close a local one to other users. Raises StoreUnreachable, OSError."""
    make_data_folder(folder, exist_ok=True)
    close_to_others(folder)
