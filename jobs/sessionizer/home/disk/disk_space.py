"""Disk space: a check before the next batch, and a reserve for a driver's exit record."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.errors import ControlUnreachable, DiskFull, UnreadablePath, UnwritablePath
from sessionizer.home.roots import uri_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.home.roots import ControlPath, DataPath

LEAST_ROOM: Final = 1024 * 1024
"""Bytes that a batch needs at least for its checkpoint and tables. With less, the next batch cannot be written."""

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
"""Errors of a mount whose server is gone for now, or of a machine short of files or memory."""


def is_away(error: OSError) -> bool:
    """Whether the error may pass by itself: a mount that is gone for now, a machine short of files or memory."""
    return error.errno in _AWAY


def unwritable(path: Path | str, purpose: str, error: OSError) -> ControlUnreachable | DiskFull | UnwritablePath:
    """Translate ``error`` from writing to ``path`` into one of our errors.

    A mount may come back and disk space may be freed: the caller waits for both. A missing permission is fatal.
    """
    if is_away(error):
        return ControlUnreachable(path, error.strerror or str(error))
    kind = DiskFull if error.errno in _NO_ROOM else UnwritablePath
    return kind(path, purpose, error.strerror or first_line(error))


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
            # not a hole: a sparse file takes no room
            self.file.write_bytes(os.urandom(RESERVE))

    def give_up(self) -> None:
        """Free the space. Harmless when repeated."""
        with suppress(OSError):
            self.file.unlink(missing_ok=True)
