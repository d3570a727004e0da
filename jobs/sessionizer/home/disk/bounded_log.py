"""The log file of a driver, which the driver keeps short while other processes write to it.

The launcher opened the file for appending and gave it to the whole process tree as stdout and stderr. So it can be
copied and truncated in place: every writer continues at its new end. Text printed between the copy and the truncation
is lost. A rename would lose the rest of the driver's life.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG_VARIABLE: Final = "SESSIONIZER_DRIVER_LOG"
"""Environment variable by which a launcher names the file, which it must have opened for appending."""

LIMIT_BYTES: Final = 8 * 1024 * 1024
LOG_MODE: Final = 0o640
"""Output of a driver is readable by its owner and group only."""

KEPT: Final = 3
"""Older parts that are kept beside the file, the newest as ``<name>.1``."""


def open_log_file(path: Path) -> BinaryIO:
    """Return the file for appending, readable by its owner and group. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, LOG_MODE)
    os.fchmod(descriptor, LOG_MODE)
    return os.fdopen(descriptor, "ab")


@dataclass(frozen=True, slots=True)
class BoundedLog:
    """A log that takes at most about ``(kept + 1) * limit_bytes`` on disk."""

    path: Path
    limit_bytes: int = LIMIT_BYTES
    kept: int = KEPT

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> BoundedLog | None:
        """Return the log that the launcher named. None if a terminal or a cluster takes the output."""
        named = environment.get(LOG_VARIABLE)
        return cls(Path(named)) if named else None

    def trim(self) -> bool:
        """Move the log's content to an older part if it exceeds ``limit_bytes``. Returns whether it did.

        Never raises, because the log must not end the driver.
        """
        try:
            if self.path.stat().st_size <= self.limit_bytes:
                return False
            self._set_aside()
            os.truncate(self.path, 0)
        except OSError:
            return False
        return True

    def parts(self) -> list[Path]:
        """Return the older parts, the newest first."""
        return [self._part(number) for number in range(1, self.kept + 1)]

    def _set_aside(self) -> None:
        with suppress(FileNotFoundError):
            self._part(self.kept).unlink()
        for number in range(self.kept - 1, 0, -1):
            with suppress(FileNotFoundError):
                self._part(number).rename(self._part(number + 1))
        newest = self._part(1)
        try:
            with self.path.open("rb") as whole, open_log_file(newest) as part:
                shutil.copyfileobj(whole, part)
        except OSError:
            # The disk is full: keeping the log small is more important than keeping older parts.
            newest.unlink(missing_ok=True)

    def _part(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
