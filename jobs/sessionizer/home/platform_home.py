"""The folder with all streams of the platform, and the id by which tables know their owner.

The id (``home.json``, docs/adr/0056) is no path: a home may be mounted elsewhere, or moved. ``home.json`` also notes
the place at which it was made.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from sessionizer.errors import HomeCopied, InvalidSpec
from sessionizer.home.control_root import CONTROL_VARIABLE
from sessionizer.home.data_root import DATA_VARIABLE, is_uri
from sessionizer.home.home_place import HomePlace, place_of
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import RecordFile

if TYPE_CHECKING:
    from sessionizer.home.control_root import ControlPath

HOME_VARIABLE: Final = "SESSIONIZER_HOME"
DEFAULT_HOME: Final = ".sessionizer"
STREAMS: Final = "streams"


def platform_home() -> Path:
    """Return the absolute directory of all streams.

    It is ``$SESSIONIZER_HOME``, else ``.sessionizer`` in the working directory. Raises InvalidSpec if it is a URI.
    """
    return home_at(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME)


def home_at(given: str, field: str = HOME_VARIABLE) -> Path:
    """Return the absolute home at a path. Raises InvalidSpec for ``field`` if it is a URI.

    It holds logs of launches, and records and data unless these have roots of their own.
    """
    if is_uri(given):
        allowed = f"a path. Only {CONTROL_VARIABLE} (records) and {DATA_VARIABLE} (checkpoints, tables) may be URIs"
        raise InvalidSpec(field, given, allowed)
    return Path(given).expanduser().absolute()


def streams_folder(home: Path) -> Path:
    """Return the folder with a directory for each stream of the platform at ``home``."""
    return home.absolute() / STREAMS


def identity_file(control: ControlPath) -> RecordFile[HomeIdentity]:
    """Return the file with the id of the platform whose control root is ``control``."""
    return RecordFile(control / "home.json", HomeIdentity)


@dataclass(frozen=True, slots=True)
class HomeIdentity(JsonRecord):
    """The ``id`` of a platform home (16 hex digits), and the place at which it was made or that an operator confirmed.

    Earlier releases noted no place.
    """

    id: str
    path: str | None = None
    machine: str | None = None
    folder: int | None = None

    @classmethod
    def at(cls, id: str, place: HomePlace) -> Self:  # noqa: A002  as the record calls it
        """Return the identity of the home at ``place``."""
        return cls(id, place.path, place.machine, place.folder)

    @property
    def place(self) -> HomePlace | None:
        """The noted place, or None."""
        return None if self.path is None else HomePlace(self.path, self.machine, self.folder)


def home_id(control: ControlPath) -> str:
    """Return the id of the home with that control root, and make it if there is none.

    Raises DamagedFile, UnwritablePath, DiskFull, ControlUnreachable.
    """
    return _identity(control).id


def read_identity(control: ControlPath) -> HomeIdentity | None:
    """Return the identity of the home with that control root, or None if there is no home yet.

    Raises DamagedFile, and ControlUnreachable if it cannot be read just now.
    """
    return identity_file(control).require()


def require_home_here(control: ControlPath) -> None:
    """Note the place of a home of an earlier release. Raises HomeCopied if the home was made elsewhere.

    Raises also DamagedFile, UnwritablePath, DiskFull, ControlUnreachable.
    """
    known, here = _identity(control), place_of(control)
    if known.place is None:
        note_home_here(control)
    elif not known.place.is_same(here):
        raise HomeCopied(str(here), known.id, str(known.place))


def note_home_here(control: ControlPath) -> HomeIdentity:
    """Note that the home is here now, and return its identity before.

    Raises DamagedFile, UnwritablePath, DiskFull, ControlUnreachable.
    """
    known = _identity(control)
    identity_file(control).write(HomeIdentity.at(known.id, place_of(control)))
    return known


def _identity(control: ControlPath) -> HomeIdentity:
    known = read_identity(control)
    if known is None:
        identity_file(control).create(HomeIdentity.at(secrets.token_hex(8), place_of(control)))
        known = read_identity(control)
    assert known is not None  # noqa: S101  it has just been made
    return known


def owner_name(stream: str, control: ControlPath) -> str:
    """Return the mark of the tables of ``stream``, such as ``clicks@5d1c0f3e9a7b2468``.

    Raises DamagedFile, UnwritablePath, DiskFull, ControlUnreachable.
    """
    return f"{stream}@{home_id(control)}"
