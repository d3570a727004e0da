"""Files of this machine: complete before their name appears, closed to others, room for them, and bounded logs.

A reader sees the old or the new file, never half of one. Files in a closed folder are closed whatever their modes,
because records and states hold users' events. The tables are not closed: the operator sets the mode of their folder.

A launcher opened a driver's log for appending as stdout and stderr of the whole process tree. So it can be copied and
truncated in place: every writer continues at its new end. Text printed between the two is lost.
"""

from __future__ import annotations

import errno
import os
import pwd
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from stat import S_IMODE, S_IRWXO, S_IWOTH
from typing import BinaryIO, Final

from sessionizer.errors import ControlUnreachable, DiskFull, UnreadablePath, UnwritablePath
from sessionizer.home.roots import ControlPath, DataPath, uri_of

TEMPORARY_SUFFIX: Final = ".tmp"
_KINDS: Final = (
    ("a folder", stat.S_ISDIR), ("a pipe", stat.S_ISFIFO), ("a socket", stat.S_ISSOCK), ("a device", stat.S_ISCHR),
    ("a device", stat.S_ISBLK),
)  # fmt: skip


def file_kind(mode: int) -> str | None:
    """Return the kind of a file with this ``mode``, None for a regular file."""
    return None if stat.S_ISREG(mode) else next((name for name, is_one in _KINDS if is_one(mode)), "no regular file")


def open_regular(path: Path) -> FileIO:
    """Open a file to read it, without a buffer. Raises OSError for anything but a regular file, and never waits.

    To open a pipe waits for its writer, to read a device may have no end, and to open one may have effects. A link to
    nothing is no absent file, because its name cannot be created.
    """
    try:
        kind = file_kind(os.stat(path).st_mode)  # noqa: PTH116  a fifth faster than the path's own
    except FileNotFoundError:
        if not path.is_symlink():
            raise
        raise OSError(errno.EINVAL, "it is a link to a file that does not exist", str(path)) from None
    if kind is not None:
        raise OSError(errno.EISDIR if kind == "a folder" else errno.EINVAL, f"it is {kind}, no regular file", str(path))
    # not to wait for a pipe that has replaced the file since then
    return FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))


def replace_file(path: Path, content: bytes, *, durable: bool) -> None:
    """Replace the file at ``path`` by ``content``. Raises OSError, and leaves the old file as it was."""
    with _complete(path, content, durable=durable) as temporary:
        temporary.replace(path)
        if durable:
            _sync_directory(path.parent)


def create_file(path: Path, content: bytes) -> bool:
    """Create ``path`` with ``content`` unless it exists. Returns True for the one caller that did. Raises OSError."""
    with _complete(path, content, durable=True) as temporary:
        # a link, unlike a rename, refuses an existing name; unlike open(O_EXCL), its target is already complete
        try:
            os.link(temporary, path)
        except FileExistsError:
            # over NFS the reply to a link that succeeded may get lost, and the repeated call collides with itself
            if temporary.stat().st_nlink != 2:  # noqa: PLR2004 - our two names
                return False
        _sync_directory(path.parent)
        return True


@contextmanager
def _complete(path: Path, content: bytes, *, durable: bool) -> Iterator[Path]:
    """Write a whole file under a hidden name beside ``path``, and delete it afterwards unless it was renamed."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def close_to_others(folder: object) -> None:
    """Remove others' rights on a local folder, unless its operator opened it to all. Never raises."""
    if not isinstance(folder, Path):
        return
    with suppress(OSError):  # the folder is another user's, who closes it
        mode = S_IMODE(folder.stat().st_mode)
        if mode & S_IRWXO and not mode & S_IWOTH:
            folder.chmod(mode & ~S_IRWXO)


LEAST_ROOM: Final = 1024 * 1024
"""Bytes that the next batch needs at least for its checkpoint and tables."""
RESERVE: Final = 64 * 1024
"""Bytes of the reserve: an exit record, and the file system's own share."""

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_AWAY: Final = frozenset(
    {
        errno.ESTALE, errno.ENOTCONN, errno.EIO, errno.EREMOTEIO, errno.EHOSTDOWN, errno.EHOSTUNREACH,
        errno.ENETUNREACH, errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.ENODEV,
        errno.ENOLCK, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR,
    }
)  # fmt: skip


def is_away(error: OSError) -> bool:
    """Whether the error may pass by itself: a mount that is gone for now, a machine short of files or memory."""
    return error.errno in _AWAY


def unwritable(path: Path | str, purpose: str, error: OSError) -> ControlUnreachable | DiskFull | UnwritablePath:
    """Translate an error from writing. A mount may come back, a disk get room. A missing permission is fatal."""
    if is_away(error):
        return ControlUnreachable(path, error.strerror or str(error))
    kind = DiskFull if error.errno in _NO_ROOM else UnwritablePath
    return kind(path, purpose, error.strerror or first_line(error))


@contextmanager
def writing(path: Path, purpose: str) -> Iterator[None]:
    """Raise UnwritablePath, DiskFull or ControlUnreachable for an OSError of the block, which writes ``path``."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, purpose, error) from error


def unreadable(path: ControlPath | DataPath, error: PermissionError) -> UnreadablePath:
    """Return the error for a ``path`` that this process may not read: what forbids it, and to whom."""
    shown = uri_of(path)
    for place in (path, *path.parents) if isinstance(path, Path) else ():
        try:
            found = place.stat()
        except PermissionError:
            continue  # the folder in which it is cannot be entered
        except OSError:
            break
        rights = f"{stat.filemode(found.st_mode)} {user_name(found.st_uid)}"
        return UnreadablePath(shown, f"{place} is {rights}, and this process runs as {user_name(os.geteuid())}")
    return UnreadablePath(shown, error.strerror or first_line(error))


def user_name(uid: int) -> str:
    """Return the name of a user, or the number of one that this machine does not know."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def first_line(error: Exception) -> str:
    """Return the first line of an error's text. The rest may be the stack of a Java exception."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def require_room(folders: Iterable[Path]) -> None:
    """Raise DiskFull if one of ``folders`` is on a disk with less than ``LEAST_ROOM``."""
    for folder in folders:
        with suppress(OSError):
            disk = os.statvfs(folder)
            free = disk.f_bavail * disk.f_frsize
            if disk.f_blocks and free < LEAST_ROOM:
                raise DiskFull(folder, "the next batch", f"{free:,} bytes are left")


@dataclass(frozen=True, slots=True)
class Reserve:
    """A file that only takes disk space, until it is given up."""

    file: Path

    def take(self) -> None:
        """Take the space. Does nothing if the disk is full."""
        with suppress(OSError):
            self.file.write_bytes(os.urandom(RESERVE))  # a sparse file would take no room

    def give_up(self) -> None:
        """Free the space. Harmless when repeated."""
        with suppress(OSError):
            self.file.unlink(missing_ok=True)


LOG_VARIABLE: Final = "SESSIONIZER_DRIVER_LOG"
"""Variable by which a launcher names the file, which it must have opened for appending."""
LIMIT_BYTES: Final = 8 * 1024 * 1024
LOG_MODE: Final = 0o640
KEPT: Final = 3
"""Older parts that are kept beside the file, the newest as ``<name>.1``."""


def open_log_file(path: Path) -> BinaryIO:
    """Return the file for appending, readable by its owner and group. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, LOG_MODE)
    os.fchmod(descriptor, LOG_MODE)
    return os.fdopen(descriptor, "ab")


@dataclass(frozen=True, slots=True)
class BoundedLog:
    """A log that takes at most about ``(kept + 1) * limit_bytes`` on disk."""

    path: Path
    limit_bytes: int = LIMIT_BYTES
    kept: int = KEPT

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> BoundedLog | None:
        """Return the log that the launcher named. None if a terminal or a cluster takes the output."""
        named = environment.get(LOG_VARIABLE)
        return cls(Path(named)) if named else None

    def trim(self) -> bool:
        """Move the log's content to an older part if it is too long. Returns whether it did. Never raises."""
        try:
            if self.path.stat().st_size <= self.limit_bytes:
                return False
            self._set_aside()
            os.truncate(self.path, 0)
        except OSError:
            return False
        return True

    def parts(self) -> list[Path]:
        """Return the older parts, the newest first."""
        return [self._part(number) for number in range(1, self.kept + 1)]

    def _set_aside(self) -> None:
        with suppress(FileNotFoundError):
            self._part(self.kept).unlink()
        for number in range(self.kept - 1, 0, -1):
            with suppress(FileNotFoundError):
                self._part(number).rename(self._part(number + 1))
        newest = self._part(1)
        try:
            with self.path.open("rb") as whole, open_log_file(newest) as part:
                shutil.copyfileobj(whole, part)
        except OSError:
            # the disk is full: a small log is more important than older parts
            newest.unlink(missing_ok=True)

    def _part(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
