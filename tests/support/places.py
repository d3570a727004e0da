"""Where things are that tests look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sessionizer.home.roots import ControlPath

REPOSITORY: Final = Path(__file__).parents[2]
SUPPORT: Final = REPOSITORY / "tests" / "support"


def mounted(path: ControlPath) -> Path:
    """What is known to be on this machine, as what it then is."""
    assert isinstance(path, Path)
    return path
