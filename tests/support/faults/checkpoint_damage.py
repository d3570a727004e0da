"""The files of a checkpoint, each damaged in every way: in memory, and on disk."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from sessionizer.checkpoint.files import Files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Way(StrEnum):
    """What happens to a file."""

    CUT = "cut"
    EMPTIED = "emptied"
    FLIPPED = "flipped"
    REMOVED = "removed"

    def of(self, content: bytes) -> bytes | None:
        """What is left of it; None for nothing, not even the name."""
        middle = len(content) // 2
        if self is Way.CUT:
            return content[:middle]
        if self is Way.FLIPPED:
            return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]
        return b"" if self is Way.EMPTIED else None


@dataclass(frozen=True, slots=True)
class Held:
    """A checkpoint in memory."""

    contents: Mapping[str, bytes]

    @classmethod
    def of(cls, folder: Path) -> Self:
        """All files below a folder."""
        files = (entry for entry in sorted(folder.rglob("*")) if entry.is_file())
        return cls({entry.relative_to(folder).as_posix(): entry.read_bytes() for entry in files})

    @property
    def names(self) -> list[str]:
        """Of the files that Spark writes for itself: Hadoop's checksums are hidden."""
        return [name for name in self.contents if not name.rpartition("/")[2].startswith(".")]

    def without_hidden(self) -> Self:
        """As a file system holds it for which Hadoop keeps no checksums."""
        return replace(self, contents={name: self.contents[name] for name in self.names})

    def damaged(self, name: str, way: Way) -> Self:
        """With one file damaged. What Hadoop noted of it stays."""
        left = way.of(self.contents[name])
        others = {other: content for other, content in self.contents.items() if other != name}
        return replace(self, contents=others if left is None else {**others, name: left})

    def files(self) -> Files:
        """As the inspection reads them."""

        def read(name: str) -> bytes:
            if name not in self.contents:
                raise FileNotFoundError(name)
            return self.contents[name]

        return Files("memory", {name: len(content) for name, content in self.contents.items()}, read)

    def put(self, folder: Path) -> None:
        """Have exactly these files in a folder."""
        shutil.rmtree(folder, ignore_errors=True)
        for name, content in self.contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
