"""Folders of records and states, which hold users' events: closed to everybody but their owner and group.

What a closed folder holds is closed as well, whatever the modes of its files. The tables are not: their readers are
many, and the mode of their folder is the operator's.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from stat import S_IMODE, S_IRWXO, S_IWOTH
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upath import UPath


def close_to_others(folder: Path | UPath) -> None:
    """Take the rights of others on ``folder`` away; in a store they are the store's. Never raises.

    A folder in which everybody may write was opened by its operator, with ``umask 0`` or by hand: it stays so.
    """
    if not isinstance(folder, Path):
        return
    with suppress(OSError):  # another user's, who closes it
        mode = S_IMODE(folder.stat().st_mode)
        if mode & S_IRWXO and not mode & S_IWOTH:
            folder.chmod(mode & ~S_IRWXO)


def make_private(folder: Path | UPath) -> None:
    """Make the folder, with those above it, and close it to others. Harmless when it is there. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    close_to_others(folder)
