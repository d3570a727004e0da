"""The lock of a demo's folder. Two demos in one folder would share a database and a stream."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sessionizer.errors import TerminalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class DemoIsRunning(TerminalError):
    """Another demo runs in the folder ``root``."""

    message = "a demo is already running in {0.root}"
    root: Path


@contextmanager
def sole_demo(root: Path) -> Iterator[None]:
    """Lock ``root`` for one demo while the block runs.

    Raises DemoIsRunning if another process runs a demo there.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DemoIsRunning(root) from error
        yield
