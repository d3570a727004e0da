"""Operations on the records of a control root, and a cache of values that are made from records.

At a path the operating system does them. In a store two primitives decide. *Create unless it exists*: on HDFS a rename,
which one step of the NameNode refuses if the name exists, on S3 a put with ``If-None-Match: *``. *Replace whole*: on
HDFS a rename that overwrites, on S3 a put. Each call has a limit, because HDFS's client alone would try for minutes.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from fnmatch import filter as fitting
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from sessionizer.errors import ControlUnreachable, DiskFull, UnwritablePath
from sessionizer.home.local_files import (
    TEMPORARY_SUFFIX,
    close_to_others,
    create_file,
    first_line,
    is_away,
    open_regular,
    replace_file,
    unreadable,
    unwritable,
)
from sessionizer.home.roots import ON_HADOOP, ControlPath, DataPath, outlive_connections_of_the_parent, uri_of

if TYPE_CHECKING:
    from upath import UPath


ANSWERS_WITHIN_S: Final = 8.0
"""Limit of one call. A driver that gets no answer to four calls in a row ends well before another may take over its
lease (``timeouts.TAKEOVER_AFTER_MS``)."""
CONNECTS_WITHIN_S: Final = 3.0

_NEVER: Final = (PermissionError, NotADirectoryError, IsADirectoryError, FileNotFoundError)
_OF_NAME_NODE: Final = re.compile(r'RPCError\("[\w.$]*?(\w+)", "(.*?)(?:\\n|"\))')
"""What hdfs-native says of a refusal by the name node: Java's class, and its message before the stack."""
_NUMBERS: Final = {
    "Credential": errno.EACCES, "AccessControlException": errno.EACCES, "QuotaExceeded": errno.EDQUOT,
}  # fmt: skip
_Answer = TypeVar("_Answer")


class Store:
    """The file or folder at ``path`` of a control root. No other code asks where a record is.

    Operations raise OSError, FileNotFoundError if it is absent. A value that is being made is cached with its reads.
    """

    def __init__(self, path: ControlPath) -> None:
        self._path = path
        self.repeats_calls = not isinstance(path, Path)
        """Whether a client repeats a call whose answer was lost. Then the content of a created file must be unique."""

    def read(self) -> bytes:
        """Read the file."""
        return cached_read(self._path, "read", self._read)

    def _read(self) -> bytes:
        if isinstance(self._path, Path):
            with open_regular(self._path) as file:
                return file.read()
        return self._ask(lambda system, name: bytes(system.cat_file(name)))

    def names(self) -> list[str]:
        """List the names in the folder."""
        path = self._path
        if isinstance(path, Path):
            # a path for each name would cost more than the listing
            return cached_read(path, "names", lambda: os.listdir(path))  # noqa: PTH208
        return cached_read(path, "names", lambda: self._ask(names_below))

    def exists(self) -> bool:
        """Whether there is such a file or folder."""
        if isinstance(self._path, Path):
            return cached_read(self._path, "exists", self._path.exists)
        return cached_read(self._path, "exists", lambda: self._ask(lambda system, name: bool(system.exists(name))))

    def replace(self, content: bytes, *, durable: bool) -> None:
        """Replace the file, without a moment at which it is absent. ``durable`` makes it survive a power cut."""
        if isinstance(self._path, Path):
            replace_file(self._path, content, durable=durable)
        elif self._path.protocol in ON_HADOOP:
            self._ask(lambda system, _: self._write_by_rename(system, content, durable=durable, overwrite=True))
        else:
            self._ask(lambda system, name: system.pipe_file(name, content))

    def create(self, content: bytes) -> bool:
        """Create the file unless it exists. Returns True for the one caller that did, which ``content`` tells."""
        if isinstance(self._path, Path):
            return create_file(self._path, content)
        try:
            if self._path.protocol in ON_HADOOP:
                self._ask(lambda system, _: self._write_by_rename(system, content, durable=True, overwrite=False))
            else:
                self._ask(lambda system, name: system.pipe_file(name, content, mode="create"))
        except (FileExistsError, FileNotFoundError) as error:
            try:
                return self._read() == content
            except FileNotFoundError:
                if isinstance(error, FileExistsError):
                    return False  # it is gone again
                raise error from None
        return True

    def remove(self) -> None:
        """Delete the file, if it exists."""
        with suppress(FileNotFoundError):
            if isinstance(self._path, Path):
                self._path.unlink()
            else:
                self._ask(lambda system, name: system.rm_file(name))

    def make_folder(self) -> None:
        """Make the folder and its parents, closed to others. Harmless if it exists. An object store has no folders."""
        if isinstance(self._path, Path):
            self._path.mkdir(parents=True, exist_ok=True)
            close_to_others(self._path)
        elif self._path.protocol in ON_HADOOP:
            self._ask(lambda system, name: system.makedirs(name, exist_ok=True))

    def changed_at_ms(self) -> int:
        """Return the time at which the file was written, in epoch ms by its store's clock."""
        if isinstance(self._path, Path):
            return self._path.stat().st_mtime_ns // 1_000_000
        return int(self._ask(lambda system, name: system.modified(name)).timestamp() * 1000)

    def refuse(self, purpose: str, error: OSError) -> ControlUnreachable | DiskFull | UnwritablePath:
        """Translate ``error`` from a write. In a store a permission or a quota is fatal. Any other error may pass."""
        if isinstance(self._path, Path):
            return unwritable(self._path, purpose, error)
        if isinstance(error, _NEVER):
            return UnwritablePath(uri_of(self._path), purpose, first_line(error))
        if "QuotaExceeded" in str(error):
            return DiskFull(uri_of(self._path), purpose, first_line(error))
        return ControlUnreachable(uri_of(self._path), error.strerror or first_line(error))

    def is_away(self, error: OSError) -> bool:
        """Whether ``error`` from a read leaves the content unknown. From a store it says nothing about the content."""
        return self.repeats_calls or is_away(error)

    def _write_by_rename(self, system: Any, content: bytes, *, durable: bool, overwrite: bool) -> None:  # noqa: ANN401
        path = cast("UPath", self._path)
        hidden = path.with_name(f".{path.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")
        try:
            with system.open(hidden.path, "wb") as file:
                file.write(content)
                if durable:
                    file.hsync()
            system.mv(hidden.path, path.path, overwrite=overwrite)
        except OSError:
            with suppress(OSError):
                system.rm_file(hidden.path)
            raise

    def _ask(self, call: Callable[[Any, str], _Answer]) -> _Answer:
        """Return or raise the result of ``call``, which gets the file system of this process and the name there.

        Raises OSError (ETIMEDOUT) if the store does not answer. The call may still take effect, as that of a paused
        process may. A process owns a lease only once it was told so.
        """
        path = cast("UPath", self._path)
        if path.protocol in ON_HADOOP:
            outlive_connections_of_the_parent()
        answer: list[Any] = []

        def ask() -> None:
            try:
                require_listener(path, CONNECTS_WITHIN_S)
                import fsspec  # noqa: PLC0415  only if control is in a store

                # after a fork, the path itself still uses the parent's file system
                answer.append((call(fsspec.filesystem(path.protocol, **path.storage_options), path.path), None))
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


def names_below(system: Any, folder: str) -> list[str]:  # noqa: ANN401  as fsspec has it
    """List the names in a folder of a store. An empty object that a tool left in the folder's place is left out."""
    listed = (str(name).strip("/") for name in system.ls(folder, detail=False))
    return [name.rpartition("/")[2] for name in listed if name != folder.strip("/")]


def require_listener(path: UPath, within_s: float) -> None:
    """Connect to the name node, if the path names its host and port. Raises OSError if none answers in that time."""
    host, port = path.storage_options.get("host"), path.storage_options.get("port")
    if host and port:
        socket.create_connection((str(host), int(port)), timeout=within_s).close()


def translate_to_os_error(error: Exception) -> OSError:
    """Translate an error of a store's package. One that is no OSError becomes EACCES, EDQUOT or EIO."""
    if isinstance(error, OSError):
        return error
    refusal = _OF_NAME_NODE.search(str(error))
    kind, text = refusal.groups() if refusal else (type(error).__name__, first_line(error))
    number = next((number for part, number in _NUMBERS.items() if part in kind), errno.EIO)
    return OSError(number, f"{kind}: {text}")


Value = TypeVar("Value")

_READS: Final[ContextVar[dict[object, tuple[Callable[[], Any], Any]] | None]] = ContextVar("reads", default=None)
"""Reads of the value that is being made, by place and operation, each done once, with its answer."""


class CachedValue(Generic[Value]):
    """A value, with the reads of records that it was made from."""

    def __init__(self) -> None:
        self._made: tuple[tuple[object, ...], dict[object, tuple[Callable[[], Any], Any]], Value] | None = None

    def get(self, make: Callable[[], Value], *of: object) -> Value:
        """Return the value of ``make``, anew if a record that it read, or ``of``, changed. No error is cached."""
        if self._made is not None:
            before, reads, value = self._made
            if before == of and all(_are_equal(_answer(do), answer) for do, answer in reads.values()):
                return value
        reads = {}
        outer = _READS.set(reads)
        try:
            value = make()
        finally:
            _READS.reset(outer)
        self._made = of, reads, value
        return value


def cached_read(path: ControlPath | DataPath, operation: str, do: Callable[[], Value]) -> Value:
    """Do an ``operation`` at ``path``, so that a value that is being made is cached with the answer."""
    reads = _READS.get()
    if reads is None:
        return do()
    if (path, operation) not in reads:
        reads[path, operation] = do, _answer(do)
    answer = reads[path, operation][1]
    if isinstance(answer, OSError):
        raise answer
    return cast("Value", answer)


def _answer(do: Callable[[], Any]) -> Any:  # noqa: ANN401  of any operation
    try:
        return do()
    except OSError as error:
        return error


def _are_equal(now: object, before: object) -> bool:
    if isinstance(now, FileNotFoundError):
        return isinstance(before, FileNotFoundError)
    return now == before


def record_names(folder: ControlPath, pattern: str = "*") -> list[str]:
    """List the names in ``folder`` that fit the ``pattern``, in order. Empty without a folder. Raises OSError."""
    try:
        return sorted(fitting(Store(folder).names(), pattern))
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextmanager
def reaching_records(path: ControlPath) -> Iterator[None]:
    """Raise ControlUnreachable or UnreadablePath in place of an OSError of the block, which reads ``path``."""
    try:
        yield
    except OSError as error:
        if isinstance(error, PermissionError):
            raise unreadable(path, error) from error
        raise ControlUnreachable(uri_of(path), error.strerror or first_line(error)) from error
