"""Where the platform keeps what belongs to all of its streams, and the id by which tables know whose they are.

The id (``home.json``, docs/adr/0056) is no path: a home may be mounted elsewhere, or moved.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sessionizer.errors import InvalidSpec
from sessionizer.home.data_root import DATA_VARIABLE, is_uri
from sessionizer.home.json_record import JsonRecord, create_record, require_undamaged

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

    What is below it is created unless it exists and replaced whole, at once for all who look (``atomic_file``).
    """
    if is_uri(given):
        allowed = f"a path that Airflow and drivers share; checkpoints and tables may be at a URI: {DATA_VARIABLE}"
        raise InvalidSpec(field, given, allowed)
    return Path(given).expanduser().absolute()


def streams_folder(home: Path) -> Path:
    """One directory per stream of the platform at ``home``."""
    return home.absolute() / STREAMS


def identity_file(home: Path) -> Path:
    """The id of the platform at ``home``."""
    return home / "home.json"


@dataclass(frozen=True, slots=True)
class HomeIdentity(JsonRecord):
    """The ``id`` of a platform home: 16 hex digits."""

    id: str


def home_id(platform_home: Path) -> str:
    """The id of the home, made now if it has none. Raises DamagedFile and UnwritablePath."""
    path = identity_file(platform_home)
    known = require_undamaged(HomeIdentity, path)
    if known is None:
        create_record(path, HomeIdentity(secrets.token_hex(8)))  # whoever comes first
        known = require_undamaged(HomeIdentity, path)
    assert known is not None  # noqa: S101  it has just been made
    return known.id


def owner_name(stream: str, platform_home: Path) -> str:
    """What a table of ``stream`` is marked with, such as ``clicks@5d1c0f3e9a7b2468``. Raises as ``home_id``."""
    return f"{stream}@{home_id(platform_home)}"
