"""The identity of a platform's home: the id by which tables know their owner, and the place where it was made.

The id (docs/adr/0056) is no path: a home may be mounted elsewhere, or moved. A copy is recognized by its place (0124).
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sessionizer.errors import DamagedFile, HomeCopied
from sessionizer.home.control_store import Store, reaching_records, record_names
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import RecordFile
from sessionizer.home.roots import STREAMS, ControlPath, uri_of
from sessionizer.home.stream_home import CONTROL

_MOUNTS: Final = Path("/proc/self/mountinfo")
_KEEP_NUMBERS: Final = {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "nfs", "nfs4", "ceph", "lustre"}
"""File systems in which a folder keeps its number for ever, on every machine that mounts them."""
GONE: Final = "the file is gone"
_ROOTS: Final = 1_000
"""Highest number that a root of a file system has. Roots have the same number in each file system."""


@dataclass(frozen=True, slots=True)
class HomeIdentity(JsonRecord):
    """The ``id`` of a platform home (16 hex digits), and the place of its control root when it was made or confirmed.

    ``folder`` is its number, None where the file system keeps no numbers, or gives the same to each volume's root.
    """

    id: str
    path: str
    machine: str | None = None
    folder: int | None = None

    def is_same(self, other: HomeIdentity) -> bool:
        """Whether both are one folder: moved by a rename, mounted elsewhere, or seen from another machine."""
        if self.folder is None or other.folder is None:
            return self.path == other.path
        return self.folder == other.folder or (self.path, self.machine) == (other.path, other.machine)

    def __str__(self) -> str:
        """Format the place for display."""
        return self.path if self.machine is None else f"{self.path} on {self.machine}"


def place_of(control: ControlPath, id: str = "") -> HomeIdentity:  # noqa: A002  as the record calls it
    """Return the place of a control root now, as the identity of the home with that id."""
    if not isinstance(control, Path):
        return HomeIdentity(id, uri_of(control))
    folder = control.resolve()
    return HomeIdentity(id, str(folder), os.uname().nodename, _number(folder))


def _number(folder: Path) -> int | None:
    try:
        number = folder.stat().st_ino
        return number if number > _ROOTS and _file_system(folder) in _KEEP_NUMBERS else None
    except OSError:
        return None


def _file_system(folder: Path) -> str | None:
    try:
        mounts = [line.split() for line in _MOUNTS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return None
    found = {mount[4]: mount[mount.index("-") + 1] for mount in mounts if "-" in mount}
    return next((found[str(at)] for at in (folder, *folder.parents) if str(at) in found), None)


def identity_file(control: ControlPath) -> RecordFile[HomeIdentity]:
    """Return the file with the id of the platform whose control root is ``control``."""
    return RecordFile(control / "home.json", HomeIdentity)


def home_id(control: ControlPath) -> str:
    """Return the id, made for a new home. Raises DamagedFile if it is lost, UnwritablePath, ControlUnreachable."""
    return _identity(control).id


def require_home_here(control: ControlPath) -> None:
    """Raise HomeCopied if the home was made elsewhere. Raises DamagedFile, UnwritablePath, ControlUnreachable."""
    known, here = _identity(control), place_of(control)
    if not known.is_same(here):
        raise HomeCopied(str(here), known.id, str(known))


def note_home_here(control: ControlPath) -> HomeIdentity:
    """Note that the home is here now, and return its identity before.

    Raises DamagedFile, UnwritablePath, ControlUnreachable.
    """
    known = _identity(control)
    identity_file(control).write(place_of(control, known.id))
    return known


def _identity(control: ControlPath) -> HomeIdentity:
    known = identity_file(control).require()
    if known is None:
        if _has_lineage(control):
            raise DamagedFile(uri_of(identity_file(control).path), GONE)
        identity_file(control).create(place_of(control, secrets.token_hex(8)))
        known = identity_file(control).require()
    assert known is not None  # noqa: S101  it has just been made
    return known


def _has_lineage(control: ControlPath) -> bool:
    streams = control / STREAMS
    with reaching_records(streams):
        names = record_names(streams)
        return any(Store(streams / name / CONTROL / "lineage.json").exists() for name in names)


def owner_name(stream: str, control: ControlPath) -> str:
    """Return the mark of the tables of ``stream``, such as ``clicks@5d1c0f3e9a7b2468``.

    Raises DamagedFile, UnwritablePath, ControlUnreachable.
    """
    return f"{stream}@{home_id(control)}"
