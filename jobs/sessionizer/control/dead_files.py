"""Deletion of files that dead drivers left in the stream's home, so that a crash loop cannot fill it."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.operation_record import APPROVED_COMMAND_FILE, PLAN_FILE
from sessionizer.home.control_store import Store, record_names
from sessionizer.home.local_files import TEMPORARY_SUFFIX
from sessionizer.home.stream_home import FILES_OF_DRIVERS, LOG_NAME

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.home.roots import ControlPath
    from sessionizer.home.stream_home import StreamHome

ABANDONED_AFTER_S: Final = 3_600
"""Seconds after which a half-written temporary file has no writer any more."""

FORGOTTEN_AFTER_S: Final = 14 * 86_400
"""Seconds for which records and notes of earlier drivers and commands, and plans, are kept for display."""

LOGS_KEPT: Final = 20
"""Number of earlier drivers whose logs are kept."""


def sweep(home: StreamHome, uid: str) -> None:
    """Delete abandoned temporary files, old records and old logs.

    Call it only as the holder of the lease, driver ``uid``, whose own log stays. Never raises.
    """
    for directory in (home.control, home.leases):
        _remove_older(directory, f".*{TEMPORARY_SUFFIX}", ABANDONED_AFTER_S)
    for folder in {home.control, home.own}:
        for pattern in FILES_OF_DRIVERS:
            _remove_older(folder, pattern, FORGOTTEN_AFTER_S)
    for file in (PLAN_FILE, APPROVED_COMMAND_FILE):
        _remove_older(file.folder(home), "*.json", FORGOTTEN_AFTER_S)
    with suppress(OSError):
        _prune_logs(home.logs, uid)


def _prune_logs(logs: Path, uid: str) -> None:
    """Keep the logs, with all their parts, of the ``LOGS_KEPT`` drivers that printed last."""
    parts: dict[str, list[Path]] = defaultdict(list)
    for path in logs.iterdir():
        named = LOG_NAME.fullmatch(path.name)
        if named and named[1] != uid:
            parts[named[1]].append(path)
    by_age = sorted(parts.values(), key=lambda paths: max(path.stat().st_mtime for path in paths), reverse=True)
    for path in (path for paths in by_age[LOGS_KEPT:] for path in paths):
        with suppress(OSError):
            path.unlink()


def _remove_older(directory: ControlPath, pattern: str, seconds: int) -> None:
    oldest = (time.time() - seconds) * 1000
    with suppress(OSError):
        for name in record_names(directory, pattern):
            with suppress(OSError):
                if Store(directory / name).changed_at_ms() < oldest:
                    Store(directory / name).remove()
