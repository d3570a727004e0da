"""Number of bytes ever written to a checkpoint, counted from its files.

Spark writes each file of a checkpoint once, under a temporary name, and renames it. It deletes old files much later
than we look. So the sum of the sizes of all files ever seen is the number of bytes written. Bytes per process would
include shuffles, tables and the local working copy of RocksDB.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as found. An overwritten file keeps its path and changes its inode."""

    path: str
    inode: int
    size: int


@dataclass(slots=True)
class WrittenBytes:
    """The sum of the bytes written until the last look."""

    total: int = 0
    _sizes: dict[tuple[str, int], int] = field(default_factory=dict)

    def look(self, files: Iterable[SeenFile]) -> None:
        """Add the size of new files, and the growth of known files."""
        for file in files:
            known = self._sizes.get((file.path, file.inode), 0)
            self.total += max(file.size - known, 0)
            self._sizes[file.path, file.inode] = max(file.size, known)


def files_below(folder: Path) -> Iterator[SeenFile]:
    """Yield the finished files below ``folder``. Files with a temporary name are counted later, under their own."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = f"{parent}/{name}"
            try:
                status = os.stat(path)  # noqa: PTH116  thousands of files, several times a second
            except FileNotFoundError:
                continue
            if not name.endswith((".tmp", ".tmp.crc")):
                yield SeenFile(path, status.st_ino, status.st_size)


def bytes_below(folder: Path) -> int:
    """Return the present size of the files below ``folder``, in bytes."""
    return sum(file.size for file in files_below(folder))
