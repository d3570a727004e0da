"""Where the platform keeps what belongs to all of its streams, and the id by which tables know whose they are.

The id (``home.json``, docs/adr/0056) is no path: a home may be mounted elsewhere, or moved.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.errors import InvalidSpec
from sessionizer.home.control_root import CONTROL_VARIABLE
from sessionizer.home.data_root import DATA_VARIABLE, is_uri
from sessionizer.home.json_file import create_record, require_undamaged
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.control_root import ControlPath

HOME_VARIABLE: Final = "SESSIONIZER_HOME"
DEFAULT_HOME: Final = ".sessionizer"
STREAMS: Final = "streams"


def platform_home() -> Path:
    """The absolute directory all streams live under: ``$SESSIONIZER_HOME``, else ``.sessionizer`` where we run.

    Raises InvalidSpec, as ``home_at``.
    """
    return home_at(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME)


def home_at(given: str, field: str = HOME_VARIABLE) -> Path:
    """The home at a path, absolute; raises InvalidSpec for ``field`` where it is a URI.

    It holds logs of launches, and records and data unless these have roots of their own.
    """
    if is_uri(given):
        allowed = f"a path; records may be at a URI: {CONTROL_VARIABLE}, checkpoints and tables, too: {DATA_VARIABLE}"
        raise InvalidSpec(field, given, allowed)
    return Path(given).expanduser().absolute()


def streams_folder(home: Path) -> Path:
    """One directory per stream of the platform at ``home``."""
    return home.absolute() / STREAMS


def identity_file(control: ControlPath) -> ControlPath:
    """The id of the platform whose control root is ``control``."""
    return control / "home.json"


@dataclass(frozen=True, slots=True)
class HomeIdentity(JsonRecord):
    """The ``id`` of a platform home: 16 hex digits."""

    id: str


def home_id(control: ControlPath) -> str:
    """The id of the home with that control root, made now if it has none. Raises DamagedFile and UnwritablePath."""
    path = identity_file(control)
    known = require_undamaged(HomeIdentity, path)
    if known is None:
        create_record(path, HomeIdentity(secrets.token_hex(8)))  # whoever comes first
        known = require_undamaged(HomeIdentity, path)
    assert known is not None  # noqa: S101  it has just been made
    return known.id


def owner_name(stream: str, control: ControlPath) -> str:
    """What a table of ``stream`` is marked with, such as ``clicks@5d1c0f3e9a7b2468``. Raises as ``home_id``."""
    return f"{stream}@{home_id(control)}"
