"""How much was ever written to a checkpoint, counted from what can be seen in it.

Spark writes a checkpoint's files once, under a temporary name, and renames them; it deletes old ones much later than
we look. So the sum of the sizes of all the files ever seen is what was written. Bytes per process would not do: they
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
    """A file as found: an overwritten one keeps its path and changes its inode."""

    path: str
    inode: int
    size: int


@dataclass(slots=True)
class WrittenBytes:
    """Sum of what was written, as of the last look."""

    total: int = 0
    _sizes: dict[tuple[str, int], int] = field(default_factory=dict)

    def look(self, files: Iterable[SeenFile]) -> None:
        """Add files that are new, and the growth of those that were seen before."""
        for file in files:
            known = self._sizes.get((file.path, file.inode), 0)
            self.total += max(file.size - known, 0)
            self._sizes[file.path, file.inode] = max(file.size, known)


def files_below(folder: Path) -> Iterator[SeenFile]:
    """The finished files below ``folder``; those under a temporary name will be counted under their own."""
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
    """Bytes that the files below ``folder`` hold now."""
    return sum(file.size for file in files_below(folder))
