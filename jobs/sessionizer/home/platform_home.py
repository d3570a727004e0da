"""The home of the platform: the folder of all its streams, and of all that has no root of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sessionizer.errors import InvalidSpec
from sessionizer.home.control_root import CONTROL_VARIABLE
from sessionizer.home.roots import DATA_VARIABLE, is_uri

DEFAULT_STREAMS: Final = Path("dags", "streams")
"""Folder of the specs below the current folder, unless a variable or an option names another."""
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


def resolve_place(path: str, platform_home: Path) -> str:
    """Resolve a path of a spec: unchanged if absolute or a URI, else under the platform's home."""
    return path if is_uri(path) else str(platform_home / path)
