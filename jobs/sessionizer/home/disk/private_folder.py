"""Folders of records and states, which hold users' events: closed to all but their owner and group.

Files in a closed folder are closed as well, whatever their modes. The tables are not closed: they have many readers,
and the operator sets the mode of their folder.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from stat import S_IMODE, S_IRWXO, S_IWOTH
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upath import UPath


def close_to_others(folder: Path | UPath) -> None:
    """Remove the rights of others on ``folder``. In a store this does nothing, because the store sets rights.

    Never raises.

    A folder that is writable for all was opened by its operator, with ``umask 0`` or by hand, and stays open.
    """
    if not isinstance(folder, Path):
        return
    with suppress(OSError):  # the folder is another user's, who closes it
        mode = S_IMODE(folder.stat().st_mode)
        if mode & S_IRWXO and not mode & S_IWOTH:
            folder.chmod(mode & ~S_IRWXO)


def make_private(folder: Path | UPath) -> None:
    """Make the folder and its parents, and close it to others. Harmless if it exists. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    close_to_others(folder)
