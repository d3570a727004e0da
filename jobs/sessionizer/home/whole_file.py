"""Files of this machine, complete before their name appears: a reader sees the old or the new one, never half."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sessionizer.home.names import TEMPORARY_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
