"""Where things are that tests look at."""

from pathlib import Path
from typing import Final, TypeVar, cast

from sessionizer.home.roots import DataPath

REPOSITORY: Final = Path(__file__).parents[2]
SUPPORT: Final = REPOSITORY / "tests" / "support"
MAIN: Final = str(REPOSITORY / "jobs" / "main.py")
"""The program `sessionizer` of the checkout."""
T = TypeVar("T")


def opened(path: DataPath) -> Path:
    """``path``, here or in a store, with the methods that open it. The product has functions for that."""
    return cast("Path", path)


def mounted(path: DataPath) -> Path:
    """What is known to be on this machine, as what it then is."""
    assert isinstance(path, Path)
    return path


def known(value: T | None) -> T:
    """``value``, which a record or a process may lack: to a process 0 a signal would end the tests themselves."""
    assert value, "it is not there"
    return value
