"""Every file below a folder and what is in it: equal before and after means that nothing was written."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path


QUIET_S: Final = 1.5
"""Spark's maintenance of the states of queries that have ended comes every half second in the tests' session."""


def settled_digest(folder: Path) -> dict[str, str]:
    """Once the maintenance of a query that has just ended has written its snapshots."""
    found = folder_digest(folder)
    while True:
        time.sleep(QUIET_S)
        now = folder_digest(folder)
        if now == found:
            return now
        found = now


def folder_digest(folder: Path) -> dict[str, str]:
    """By the name of each file, hidden ones and empty folders among them."""
    return {
        entry.relative_to(folder).as_posix(): hashlib.sha256(entry.read_bytes()).hexdigest() if entry.is_file() else ""
        for entry in sorted(folder.rglob("*"))
    }
