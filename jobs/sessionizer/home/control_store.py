"""Operations on the records of a control root, and a cache of values that are made from records.

At a path the operating system does them. In a store, such as HDFS or S3, two primitives decide. *Create unless it
exists*: on HDFS a rename, which one step of the NameNode refuses if the name exists, and on S3 a put with
``If-None-Match: *``. *Replace whole*: on HDFS a rename that overwrites, in one step, too, and on S3 a put. Each call
has a limit: HDFS's client alone would try for minutes, and a driver that cannot read its lease must know it sooner.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
import threading
from contextlib import suppress
from contextvars import ContextVar
from fnmatch import filter as fitting
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

from sessionizer.errors import ControlUnreachable, DiskFull, UnwritablePath
from sessionizer.home.local_files import (
    TEMPORARY_SUFFIX,
    create_file,
    first_line,
    is_away,
    make_private,
    open_regular,
    replace_file,
    unreadable,
    unwritable,
)
from sessionizer.home.roots import outlive_connections_of_the_parent, uri_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from upath import UPath

    from sessionizer.errors import UnreadablePath
    from sessionizer.home.roots import ControlPath, DataPath


ANSWERS_WITHIN_S: Final = 8.0
"""Limit of one call. A driver makes four calls: it looks at its lease and for a stop marker, and writes its beat. If
none is answered, the driver ends well before another may take over its lease (``timeouts.TAKEOVER_AFTER_MS``)."""
CONNECTS_WITHIN_S: Final = 3.0

_NEVER: Final = (PermissionError, NotADirectoryError, IsADirectoryError, FileNotFoundError)
_OF_NAME_NODE: Final = re.compile(r'RPCError\("[\w.$]*?(\w+)", "(.*?)(?:\\n|"\))')
"""Pattern of what hdfs-native says of a refusal by the name node: Java's class, and its message before the stack."""
_NUMBERS: Final = {
    "Credential": errno.EACCES, "AccessControlException": errno.EACCES, "QuotaExceeded": errno.EDQUOT,
}  # fmt: skip
"""Numbers of errors by a part of the name of their class."""
_Answer = TypeVar("_Answer")


class UriStore:
    """The file or folder at ``path`` of a store: see ``ControlStore``."""

    repeats_calls = True

    def __init__(self, path: UPath) -> None:
        self._path, self._is_hdfs = path, path.protocol == "hdfs"

    def read(self) -> bytes:
        """Read the file."""
        return self._ask(lambda: bytes(self._system.cat_file(self._path.path)))

    def replace(self, content: bytes, *, durable: bool) -> None:
        """Replace the file."""
        if self._is_hdfs:
            self._ask(lambda: self._write_by_rename(content, durable=durable, overwrite=True))
        else:
            self._ask(lambda: self._system.pipe_file(self._path.path, content))

    def create(self, content: bytes) -> bool:
        """Create the file unless it exists. If it does, ``content`` tells whether this call was its maker."""
        try:
            if self._is_hdfs:
                self._ask(lambda: self._write_by_rename(content, durable=True, overwrite=False))
            else:
                self._ask(lambda: self._system.pipe_file(self._path.path, content, mode="create"))
        except (FileExistsError, FileNotFoundError) as error:
            try:
                return self.read() == content
            except FileNotFoundError:
                if isinstance(error, FileExistsError):
                    return False  # it is gone again
                raise error from None
        return True

    def names(self) -> list[str]:
        """List the names in the folder."""
        listed = self._ask(lambda: self._system.ls(self._path.path, detail=False))
        # a tool may have left an empty object in the place of a folder, which is listed inside of it
        inside = (str(name).rstrip("/") for name in listed if str(name).rstrip("/") != self._path.path.rstrip("/"))
        return [name.rpartition("/")[2] for name in inside]

    def exists(self) -> bool:
        """Whether there is such a file or folder."""
        return self._ask(lambda: bool(self._system.exists(self._path.path)))

    def remove(self) -> None:
        """Delete the file, if it exists."""
        with suppress(FileNotFoundError):
            self._ask(lambda: self._system.rm_file(self._path.path))

    def make_folder(self) -> None:
        """Make the folder and its parents. An object store has none: a folder is there when something is in it."""
        if self._is_hdfs:
            self._ask(lambda: self._system.makedirs(self._path.path, exist_ok=True))

    def changed_at_ms(self) -> int:
        """Return the time of the last write by the store's clock."""
        return int(self._ask(lambda: self._system.modified(self._path.path)).timestamp() * 1000)

    def refuse(self, purpose: str, error: OSError) -> ControlUnreachable | DiskFull | UnwritablePath:
        """Translate ``error`` from a write. A permission or a quota is fatal. Any other error may pass."""
        if isinstance(error, _NEVER):
            return UnwritablePath(uri_of(self._path), purpose, first_line(error))
        if "QuotaExceeded" in str(error):
            return DiskFull(uri_of(self._path), purpose, first_line(error))
        return ControlUnreachable(uri_of(self._path), error.strerror or first_line(error))

    def is_away(self, _: OSError) -> bool:
        """Whether the content is unknown: an error about a file that is not delivered says nothing about it."""
        return True

    @property
    def _system(self) -> Any:  # noqa: ANN401  as fsspec has it
        """The file system in this process. After a fork, the path itself still uses the parent's."""
        import fsspec  # noqa: PLC0415  only if control is in a store

        return fsspec.filesystem(self._path.protocol, **self._path.storage_options)

    def _write_by_rename(self, content: bytes, *, durable: bool, overwrite: bool) -> None:
        hidden = self._path.with_name(f".{self._path.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")
        try:
            with self._system.open(hidden.path, "wb") as file:
                file.write(content)
                if durable:
                    file.hsync()
            self._system.mv(hidden.path, self._path.path, overwrite=overwrite)
        except OSError:
            with suppress(OSError):
                self._system.rm_file(hidden.path)
            raise

    def _ask(self, call: Callable[[], _Answer]) -> _Answer:
        """Return or raise the result of ``call``. Raises OSError (ETIMEDOUT) if the store does not answer.

        After a timeout the call's thread stays behind, and the call may still take effect, as that of a paused process
        may. A process owns a lease only once it was told so.
        """
        if self._is_hdfs:
            outlive_connections_of_the_parent()
        answer: list[Any] = []

        def ask() -> None:
            try:
                require_listener(self._path, CONNECTS_WITHIN_S)
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


def require_listener(path: UPath, within_s: float) -> None:
    """Connect to the name node, if the path names its host and port. Raises OSError if none answers in that time."""
    host, port = path.storage_options.get("host"), path.storage_options.get("port")
    if host and port:
        socket.create_connection((str(host), int(port)), timeout=within_s).close()


def translate_to_os_error(error: Exception) -> OSError:
    """Translate an error of a store's package into an OSError.

    Missing credentials and permissions become EACCES, a quota EDQUOT, any other error that is no OSError becomes EIO.
    """
    if isinstance(error, OSError):
        return error
    refusal = _OF_NAME_NODE.search(str(error))
    kind, text = refusal.groups() if refusal else (type(error).__name__, first_line(error))
    number = next((number for part, number in _NUMBERS.items() if part in kind), errno.EIO)
    return OSError(number, f"{kind}: {text}")


Value = TypeVar("Value")


class CachedReads:
    """Reads at a control root, each done once, with its answer."""

    def __init__(self) -> None:
        self._answers: dict[tuple[ControlPath | DataPath, str], tuple[Callable[[], Any], Any]] = {}

    def read(self, path: ControlPath | DataPath, operation: str, do: Callable[[], Any]) -> Any:  # noqa: ANN401  of any operation
        """Return the answer to an ``operation`` at ``path``, which ``do`` carries out the first time."""
        if (path, operation) not in self._answers:
            self._answers[path, operation] = do, _answer(do)
        answer = self._answers[path, operation][1]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def have_same_answers(self) -> bool:
        """Whether each read has the same answer now. A place that cannot be reached has none."""
        return all(_are_equal(_answer(do), before) for do, before in self._answers.values())


def _answer(do: Callable[[], Any]) -> Any:  # noqa: ANN401  of any operation
    try:
        return do()
    except OSError as error:
        return error


def _are_equal(now: object, before: object) -> bool:
    if isinstance(now, FileNotFoundError):
        return isinstance(before, FileNotFoundError)
    return now == before


class CachedValue(Generic[Value]):
    """A value, with the reads of records that it was made from."""

    def __init__(self) -> None:
        self._made: tuple[tuple[object, ...], CachedReads, Value] | None = None

    def get(self, make: Callable[[], Value], *of: object) -> Value:
        """Return the value of ``make``, called anew if a record that it read or something in ``of`` changed.

        ``make`` depends on nothing else. It raises what it raises, and an error is not cached.
        """
        if self._made is not None and self._made[0] == of and self._made[1].have_same_answers():
            return self._made[2]
        reads = CachedReads()
        outer = _READS.set(reads)
        try:
            value = make()
        finally:
            _READS.reset(outer)
        self._made = of, reads, value
        return value


class ReadableStore(Protocol):
    """The reads of a store, which are cached. Each raises OSError."""

    def read(self) -> bytes:
        """Read the file."""

    def names(self) -> list[str]:
        """List the names in the folder."""

    def exists(self) -> bool:
        """Whether there is such a file or folder."""


Store = TypeVar("Store", bound=ReadableStore)


class _CachedStore:
    """A store whose reads are cached."""

    def __init__(self, store: ReadableStore, path: ControlPath, reads: CachedReads) -> None:
        self._store, self._path, self._reads = store, path, reads

    def read(self) -> bytes:
        return cast("bytes", self._reads.read(self._path, "read", self._store.read))

    def names(self) -> list[str]:
        return cast("list[str]", self._reads.read(self._path, "names", self._store.names))

    def exists(self) -> bool:
        return cast("bool", self._reads.read(self._path, "exists", self._store.exists))

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


_READS: Final[ContextVar[CachedReads | None]] = ContextVar("reads", default=None)


def cached_read(path: ControlPath | DataPath, operation: str, do: Callable[[], Value]) -> Value:
    """Do an ``operation`` at ``path``, so that a value that is being made is cached with the answer."""
    reads = _READS.get()
    return do() if reads is None else cast("Value", reads.read(path, operation, do))


def cache_reads(store: Store, path: ControlPath) -> Store:
    """Return the store of ``path``, so that a value that is being made is cached with its reads of it."""
    reads = _READS.get()
    return store if reads is None else cast("Store", _CachedStore(store, path, reads))


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
