"""Files and folders of this machine: complete before their name appears, and closed to all but owner and group.

A reader sees the old or the new file, never half of one. Files in a closed folder are closed as well, whatever their
modes, because records and states hold users' events. The tables are not closed: they have many readers, and the
operator sets the mode of their folder.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from stat import S_IMODE, S_IRWXO, S_IWOTH
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


TEMPORARY_SUFFIX: Final = ".tmp"
"""Suffix of hidden files that are not complete yet."""
_KINDS: Final = (
    ("a folder", stat.S_ISDIR), ("a pipe", stat.S_ISFIFO), ("a socket", stat.S_ISSOCK), ("a device", stat.S_ISCHR),
    ("a device", stat.S_ISBLK),
)  # fmt: skip


def file_kind(mode: int) -> str | None:
    """Return the kind of a file with this ``mode``, None for a regular file."""
    return None if stat.S_ISREG(mode) else next((name for name, is_one in _KINDS if is_one(mode)), "no regular file")


def open_regular(path: Path) -> FileIO:
    """Open a file to read it, without a buffer. Raises OSError for anything but a regular file, and never waits.

    To open a pipe waits for its writer, to read a device may have no end, and to open one may have effects.
    """
    kind = file_kind(os.stat(path).st_mode)  # noqa: PTH116  a fifth faster than the path's own
    if kind is not None:
        raise OSError(errno.EISDIR if kind == "a folder" else errno.EINVAL, f"it is {kind}, no regular file", str(path))
    # not to wait for a pipe that has replaced the file since then
    return FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))


def replace_file(path: Path, content: bytes, *, durable: bool) -> None:
    """Replace the file at ``path`` by ``content``. Raises OSError, and leaves the old file as it was.

    ``durable`` makes it survive a power cut (two fsyncs).
    """
    with _complete(path, content, durable=durable) as temporary:
        temporary.replace(path)
        if durable:
            _sync_directory(path.parent)


def create_file(path: Path, content: bytes) -> bool:
    """Create ``path`` with ``content`` unless it exists. Returns True for the one caller that did. Raises OSError."""
    with _complete(path, content, durable=True) as temporary:
        # A link, unlike a rename, refuses an existing name; unlike open(O_EXCL), its target is already complete.
        try:
            os.link(temporary, path)
        except FileExistsError:
            # Over NFS the reply to a link that succeeded may get lost and the repeated call then collides with itself.
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
    """Remove the rights of others on a local ``folder``. On a store's path do nothing: the store sets rights.

    Never raises.

    A folder that is writable for all was opened by its operator, with ``umask 0`` or by hand, and stays open.
    """
    if not isinstance(folder, Path):
        return
    with suppress(OSError):  # the folder is another user's, who closes it
        mode = S_IMODE(folder.stat().st_mode)
        if mode & S_IRWXO and not mode & S_IWOTH:
            folder.chmod(mode & ~S_IRWXO)


def make_private(folder: Path) -> None:
    """Make the folder and its parents, and close it to others. Harmless if it exists. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    close_to_others(folder)
