"""Every file below a folder and what is in it: equal before and after means that nothing was written."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def folder_digest(folder: Path) -> dict[str, str]:
    """By the name of each file, hidden ones and empty folders among them."""
    return {
        entry.relative_to(folder).as_posix(): hashlib.sha256(entry.read_bytes()).hexdigest() if entry.is_file() else ""
        for entry in sorted(folder.rglob("*"))
    }
