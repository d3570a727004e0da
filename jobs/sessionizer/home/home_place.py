"""The place of a home, by which a copy of it is recognized (docs/adr/0124)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.home.data_root import uri_of
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.control_root import ControlPath

_MOUNTS: Final = Path("/proc/self/mountinfo")
_KEEP_NUMBERS: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "nfs", "nfs4", "ceph", "lustre"}
)
"""File systems in which a folder keeps its number for ever, on every machine that mounts them."""

_ROOTS: Final = 1_000
"""Highest number that a root of a file system has. Roots have the same number in each file system."""


@dataclass(frozen=True, slots=True)
class HomePlace(JsonRecord):
    """The ``path`` (or URI) of a control root, the ``machine``, and the ``folder``'s number in its file system.

    ``folder`` is None where the file system keeps no numbers, or gives the same to the root of each volume.
    """

    path: str
    machine: str | None = None
    folder: int | None = None

    def is_same(self, other: HomePlace) -> bool:
        """Whether both are one folder: moved by a rename, mounted elsewhere, or seen from another machine."""
        if self.folder is None or other.folder is None:
            return self.path == other.path
        return self.folder == other.folder or (self.path, self.machine) == (other.path, other.machine)

    def __str__(self) -> str:
        """Format the place for display."""
        return self.path if self.machine is None else f"{self.path} on {self.machine}"


def place_of(control: ControlPath) -> HomePlace:
    """Return the place of a control root."""
    if not isinstance(control, Path):
        return HomePlace(uri_of(control))
    folder = control.resolve()
    return HomePlace(str(folder), os.uname().nodename, _number(folder))


def _number(folder: Path) -> int | None:
    try:
        number = folder.stat().st_ino
        return number if number > _ROOTS and _file_system(folder) in _KEEP_NUMBERS else None
    except OSError:
        return None


def _file_system(folder: Path) -> str | None:
    """Return the type of the file system with ``folder``. None if the machine does not list its mounts."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return None
    found = {mount[4]: mount[mount.index("-") + 1] for mount in mounts if "-" in mount}
    return next((found[str(at)] for at in (folder, *folder.parents) if str(at) in found), None)
