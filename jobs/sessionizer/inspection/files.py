"""The files of a checkpoint, wherever they are: names, sizes, bytes. What is read here is all that is judged."""

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
    """``sizes``: the name of each file from the checkpoint on, with slashes, to its bytes. ``read``: its content.

    ``read`` raises FileNotFoundError of one that is gone, and OSError.
    """

    location: str
    sizes: Mapping[str, int]
    read: Callable[[str], bytes]

    def below(self, folder: str) -> Iterator[str]:
        """The names of the files in a folder and its folders, from the checkpoint on."""
        return (name for name in self.sizes if name.startswith(f"{folder}/"))

    def numbered(self, folder: str) -> dict[int, str]:
        """The files of a log of Spark's, by their numbers: ``7``, and ``9.compact`` where 9 is no file of its own."""
        parts = (name for name in self.below(folder) if "/" not in name[len(folder) + 1 :])
        found: dict[int, str] = {}
        for name in sorted(parts, reverse=True):
            number = name[len(folder) + 1 :].removesuffix(".compact")
            if number.isdecimal():
                found[int(number)] = name
        return dict(sorted(found.items()))


def of_one_moment(checkpoint: DataPath, read: Callable[[Files], _Read]) -> _Read:
    """What is read of the files that are there: once more where a query that runs removes one meanwhile.

    Raises FileNotFoundError where that happens again and again, and OSError.
    """
    for _ in range(_TRIES - 1):
        try:
            return read(files_of(checkpoint))
        except FileNotFoundError:
            continue
    return read(files_of(checkpoint))


def files_of(checkpoint: DataPath) -> Files:
    """What is in the folder now, hidden files among it. Raises OSError."""
    return Files(uri_of(checkpoint), dict(_sizes(checkpoint)), lambda name: (checkpoint / name).read_bytes())


def _sizes(checkpoint: DataPath) -> Iterator[tuple[str, int]]:
    if isinstance(checkpoint, Path):
        for entry in checkpoint.rglob("*"):
            try:
                if entry.is_file():
                    yield entry.relative_to(checkpoint).as_posix(), entry.stat().st_size
            except FileNotFoundError:  # a query that runs removes what it needs no more
                continue
        return
    root = checkpoint.path.rstrip("/")
    for path, about in checkpoint.fs.find(checkpoint.path, detail=True).items():
        yield path[path.index(root) + len(root) + 1 :], int(about["size"])
