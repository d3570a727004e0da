"""Files of a checkpoint, wherever they are: names, sizes, bytes. The inspection judges only data read here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from sessionizer.home.data_root import uri_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sessionizer.home.data_root import DataPath

_Read = TypeVar("_Read")
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Files:
    """Files of a checkpoint. ``sizes``: bytes of each file, by its name below the checkpoint, with slashes.

    ``read``: returns the content of a file. It raises FileNotFoundError if the file is gone, and OSError.
    """

    location: str
    sizes: Mapping[str, int]
    read: Callable[[str], bytes]

    def list_below(self, folder: str) -> Iterator[str]:
        """Yield the names of the files in a folder and its folders, relative to the checkpoint."""
        return (name for name in self.sizes if name.startswith(f"{folder}/"))

    def numbered(self, folder: str) -> dict[int, str]:
        """Return the files of a log of Spark's, by their numbers: ``7``, and ``9.compact`` if there is no ``9``."""
        parts = (name for name in self.list_below(folder) if "/" not in name[len(folder) + 1 :])
        found: dict[int, str] = {}
        for name in sorted(parts, reverse=True):
            number = name[len(folder) + 1 :].removesuffix(".compact")
            if number.isdecimal():
                found[int(number)] = name
        return dict(sorted(found.items()))


def read_consistently(checkpoint: DataPath, read: Callable[[Files], _Read]) -> _Read:
    """Return the result of ``read`` for the current files. Repeat it if a running query removes a file meanwhile.

    Raises FileNotFoundError if that happens again and again, and OSError.
    """
    for _ in range(_TRIES - 1):
        try:
            return read(files_of(checkpoint))
        except FileNotFoundError:
            continue
    return read(files_of(checkpoint))


def files_of(checkpoint: DataPath) -> Files:
    """List the files in the folder now, also hidden ones. Raises OSError."""
    return Files(uri_of(checkpoint), dict(_sizes(checkpoint)), lambda name: (checkpoint / name).read_bytes())


def _sizes(checkpoint: DataPath) -> Iterator[tuple[str, int]]:
    if isinstance(checkpoint, Path):
        for entry in checkpoint.rglob("*"):
            try:
                if entry.is_file():
                    yield entry.relative_to(checkpoint).as_posix(), entry.stat().st_size
            except FileNotFoundError:  # a running query removes files that it no longer needs
                continue
        return
    root = checkpoint.path.rstrip("/")
    for path, about in checkpoint.fs.find(checkpoint.path, detail=True).items():
        yield path[path.index(root) + len(root) + 1 :], int(about["size"])
