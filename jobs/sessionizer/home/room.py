"""Room on a disk: whether there is any, and a little that is kept back for the last words of a driver."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.errors import ControlUnreachable, DiskFull, UnwritablePath

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LEAST_ROOM: Final = 1024 * 1024
"""Bytes. With less, the next batch cannot be written: what it adds to checkpoint and tables is more."""

RESERVE: Final = 64 * 1024
"""Bytes: an exit record, and what a file system takes for it."""

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_AWAY: Final = frozenset(
    {
        errno.ESTALE, errno.ENOTCONN, errno.EIO, errno.EREMOTEIO, errno.EHOSTDOWN, errno.EHOSTUNREACH,
        errno.ENETUNREACH, errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.ENODEV,
        errno.ENOLCK, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR,
    }
)  # fmt: skip
"""Of a mount whose server is gone for now, or a machine short of files or memory."""


def is_away(error: OSError) -> bool:
    """Whether it tells of what may be there again in a moment: a mount, a machine that is short of something."""
    return error.errno in _AWAY


def unwritable(path: Path | str, purpose: str, error: OSError) -> ControlUnreachable | DiskFull | UnwritablePath:
    """The error that ``error`` comes to for who has to write ``path``.

    A mount may come back and room be made: both are waited for. A permission is missing until somebody gives it.
    """
    if is_away(error):
        return ControlUnreachable(path, error.strerror or str(error))
    kind = DiskFull if error.errno in _NO_ROOM else UnwritablePath
    return kind(path, purpose, error.strerror or first_line(error))


def first_line(error: Exception) -> str:
    """What an error says, without the stack that one of Java's brings along."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def require_room(folders: Iterable[Path]) -> None:
    """Raises DiskFull where one of ``folders`` is on a disk with less than ``LEAST_ROOM``."""
    for folder in folders:
        with suppress(OSError):
            disk = os.statvfs(folder)
            free = disk.f_bavail * disk.f_frsize
            if disk.f_blocks and free < LEAST_ROOM:
                raise DiskFull(folder, "the next batch", f"{free:,} bytes are left")


@dataclass(frozen=True, slots=True)
class Reserve:
    """A file that only takes room, until it is given up."""

    file: Path

    def take(self) -> None:
        """Take the room; goes without where there is none."""
        with suppress(OSError):
            # not a hole: a sparse file takes no room
            self.file.write_bytes(os.urandom(RESERVE))

    def give_up(self) -> None:
        """Make the room free. Harmless when repeated."""
        with suppress(OSError):
            self.file.unlink(missing_ok=True)
