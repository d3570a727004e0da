"""Operations on the records of a control root, at a path or at a URI. At a path the operating system does them.

At a URI two primitives decide. *Create unless it exists*: on HDFS a rename, which one step of the NameNode refuses if
the name exists, and on S3 a put with ``If-None-Match: *``. *Replace whole*: on HDFS a rename that overwrites, in one
step, too, and on S3 a put. Each call to a store has a limit: HDFS's client alone would try for minutes, and a driver
that cannot read its lease must know it sooner than that.
"""

from __future__ import annotations

import errno
import secrets
import socket
import threading
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sessionizer.errors import ControlUnreachable, DiskFull, UnwritablePath
from sessionizer.home.disk.local_files import TEMPORARY_SUFFIX, create_file, make_private, replace_file
from sessionizer.home.disk.room import first_line
from sessionizer.home.roots import outlive_connections_of_the_parent, uri_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from upath import UPath

    from sessionizer.home.roots import ControlPath

ANSWERS_WITHIN_S: Final = 8.0
"""Limit of one call. A driver makes four calls: it looks at its lease and for a stop marker, and writes its beat. If
none is answered, the driver ends well before another may take over its lease (``patience.TAKEOVER_AFTER_MS``)."""
CONNECTS_WITHIN_S: Final = 3.0

_NEVER: Final = (PermissionError, NotADirectoryError, IsADirectoryError, FileNotFoundError)
_Answer = TypeVar("_Answer")


def read_whole(path: ControlPath) -> bytes:
    """Read the file at ``path``. Raises FileNotFoundError if it is absent, and OSError for any other failure."""
    if isinstance(path, Path):
        return path.read_bytes()
    return _answered(path, lambda: bytes(_store_of(path).cat_file(path.path)))


def replace_whole(path: ControlPath, content: bytes, *, durable: bool) -> None:
    """Replace the file at ``path`` by ``content``, without a moment at which it is absent. Raises OSError.

    ``durable`` makes it survive a power cut.
    """
    if not isinstance(path, Path):
        _answered(path, lambda: _replace_in_store(path, content, durable=durable))
    else:
        replace_file(path, content, durable=durable)


def create_whole(path: ControlPath, content: bytes) -> bool:
    """Create ``path`` with ``content`` unless it exists. Returns True for the one caller that did. Raises OSError.

    In a store ``content`` must be unique to this call, because a client repeats a call whose answer was lost.
    """
    if isinstance(path, Path):
        return create_file(path, content)
    try:
        if path.protocol == "hdfs":
            _answered(path, lambda: _write_by_rename(path, content, durable=True, overwrite=False))
        else:
            _answered(path, lambda: _store_of(path).pipe_file(path.path, content, mode="create"))
    except (FileExistsError, FileNotFoundError) as error:
        try:
            return read_whole(path) == content
        except FileNotFoundError:
            if isinstance(error, FileExistsError):
                return False  # it is gone again
            raise error from None
    return True


def record_names(folder: ControlPath, pattern: str = "*") -> list[str]:
    """List the names in ``folder`` that fit the ``pattern``, in order. Empty without a folder. Raises OSError."""
    try:
        if isinstance(folder, Path):
            names = [entry.name for entry in folder.iterdir()]
        else:
            listed = _answered(folder, lambda: _store_of(folder).ls(folder.path, detail=False))
            names = [str(name).rstrip("/").rpartition("/")[2] for name in listed]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if fnmatchcase(name, pattern))


def is_there(path: ControlPath) -> bool:
    """Whether there is such a file or folder. Raises OSError."""
    return path.exists() if isinstance(path, Path) else _answered(path, lambda: bool(_store_of(path).exists(path.path)))


def remove(path: ControlPath) -> None:
    """Delete the file, if it exists. Raises OSError."""
    if isinstance(path, Path):
        path.unlink(missing_ok=True)
    else:
        with suppress(FileNotFoundError):
            _answered(path, lambda: _store_of(path).rm_file(path.path))


def make_folder(folder: ControlPath) -> None:
    """Make the folder and its parents, closed to others. Harmless if it exists. Raises OSError."""
    if isinstance(folder, Path):
        make_private(folder)
    elif folder.protocol == "hdfs":
        _answered(folder, lambda: _store_of(folder).makedirs(folder.path, exist_ok=True))
    # an object store has none: a folder is there when something is in it


def changed_at_ms(path: ControlPath) -> int:
    """Return the time at which the file was written, in epoch ms by its store's clock. Raises OSError."""
    if isinstance(path, Path):
        return path.stat().st_mtime_ns // 1_000_000
    return int(_answered(path, lambda: _store_of(path).modified(path.path)).timestamp() * 1000)


def translate_to_os_error(error: Exception) -> OSError:
    """Translate an error of a store's package into an OSError.

    Missing credentials become EACCES, any other error that is no OSError becomes EIO.
    """
    if isinstance(error, OSError):
        return error
    lacks_credentials = "Credential" in type(error).__name__
    return OSError(errno.EACCES if lacks_credentials else errno.EIO, f"{type(error).__name__}: {first_line(error)}")


def refused_by_store(path: UPath, purpose: str, error: OSError) -> ControlUnreachable | DiskFull | UnwritablePath:
    """Translate ``error`` from writing to ``path`` in a store into one of our errors.

    A permission or a quota is fatal. Any other error may pass, so it becomes ControlUnreachable.
    """
    if isinstance(error, _NEVER) or "AccessControlException" in str(error):
        return UnwritablePath(uri_of(path), purpose, first_line(error))
    if "QuotaExceeded" in str(error):
        return DiskFull(uri_of(path), purpose, first_line(error))
    return unreachable(path, error)


def unreachable(path: ControlPath, error: OSError) -> ControlUnreachable:
    """Return the error that says that ``path`` cannot be reached just now."""
    return ControlUnreachable(uri_of(path), error.strerror or first_line(error))


def _replace_in_store(path: UPath, content: bytes, *, durable: bool) -> None:
    if path.protocol == "hdfs":
        _write_by_rename(path, content, durable=durable, overwrite=True)
    else:
        _store_of(path).pipe_file(path.path, content)


def _write_by_rename(path: UPath, content: bytes, *, durable: bool, overwrite: bool) -> None:
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")
    try:
        with _store_of(hidden).open(hidden.path, "wb") as file:
            file.write(content)
            if durable:
                file.hsync()
        _store_of(path).mv(hidden.path, path.path, overwrite=overwrite)
    except OSError:
        with suppress(OSError):
            _store_of(hidden).rm_file(hidden.path)
        raise


def _answered(path: UPath, call: Callable[[], _Answer]) -> _Answer:
    """Return or raise the result of ``call``. Raises OSError (ETIMEDOUT) if the store does not answer.

    After a timeout the call's thread stays behind, and the call may still take effect, as that of a paused process may.
    A process owns a lease only once it was told so.
    """
    if path.protocol == "hdfs":
        outlive_connections_of_the_parent()
    answer: list[Any] = []

    def ask() -> None:
        try:
            _require_listener(path)
            answer.append((call(), None))
        except BaseException as error:  # noqa: BLE001  raised below, in the thread that waits
            answer.append((None, error))

    thread = threading.Thread(target=ask, name="control store", daemon=True)
    thread.start()
    thread.join(ANSWERS_WITHIN_S)
    if not answer:
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {ANSWERS_WITHIN_S:.0f} s")
    value, error = answer[0]
    if error is None:
        return value  # type: ignore[no-any-return]
    if not isinstance(error, Exception):
        raise error
    raise translate_to_os_error(error) from error.__cause__


def _store_of(path: UPath) -> Any:  # noqa: ANN401  as fsspec has it
    """Return the file system of ``path`` in this process. After a fork, ``path`` itself still uses the parent's."""
    import fsspec  # noqa: PLC0415  only if control is in a store

    return fsspec.filesystem(path.protocol, **path.storage_options)


def _require_listener(path: UPath) -> None:
    host, port = path.storage_options.get("host"), path.storage_options.get("port")
    if host and port:
        socket.create_connection((str(host), int(port)), timeout=CONNECTS_WITHIN_S).close()
