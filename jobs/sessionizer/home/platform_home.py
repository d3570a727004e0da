"""Where the platform keeps what belongs to all of its streams."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

HOME_VARIABLE: Final = "SESSIONIZER_HOME"
DEFAULT_HOME: Final = ".sessionizer"


def platform_home() -> Path:
    """The absolute directory all streams live under: ``$SESSIONIZER_HOME``, else ``.sessionizer`` where we run."""
    return Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME).expanduser().absolute()


def streams_folder(home: Path) -> Path:
    """One directory per stream of the platform at ``home``."""
    return home.absolute() / "streams"


def identity_file(home: Path) -> Path:
    """The id of the platform at ``home``."""
    return home / "home.json"
