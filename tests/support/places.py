"""Where things are that tests look at."""

from pathlib import Path
from typing import Final, cast

from sessionizer.home.roots import DataPath

REPOSITORY: Final = Path(__file__).parents[2]
SUPPORT: Final = REPOSITORY / "tests" / "support"


def opened(path: DataPath) -> Path:
    """``path``, here or in a store, with the methods that open it. The product has functions for that."""
    return cast("Path", path)


def mounted(path: DataPath) -> Path:
    """What is known to be on this machine, as what it then is."""
    assert isinstance(path, Path)
    return path
