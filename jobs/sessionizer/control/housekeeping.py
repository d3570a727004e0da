"""Removes what dead drivers left in the control directory, so that a crash loop cannot fill it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sessionizer.control.atomic_file import TEMPORARY_SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.control.stream_home import StreamHome

ABANDONED_AFTER_S: Final = 3_600
"""Seconds after which a half-written temporary file has no writer any more."""

FORGOTTEN_AFTER_S: Final = 14 * 86_400
"""Seconds for which exit records, stop markers and submissions of earlier drivers are kept for people to read."""


def sweep(home: StreamHome) -> None:
    """Remove abandoned temporary files and forgotten records. Only for the holder of the lease. Never raises."""
    for directory in (home.control, home.leases):
        _remove_older(directory, f".*{TEMPORARY_SUFFIX}", ABANDONED_AFTER_S)
    for pattern in ("exit.*.json", "stop.*", "submit.*"):
        _remove_older(home.control, pattern, FORGOTTEN_AFTER_S)


def _remove_older(directory: Path, pattern: str, seconds: int) -> None:
    oldest = time.time() - seconds
    for path in directory.glob(pattern):
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()
