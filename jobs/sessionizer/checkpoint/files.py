"""Files of a checkpoint, wherever they are: names, sizes, bytes. The inspection judges only data read here.

Beside a file on a local disk is one of Hadoop's, ``.NAME.crc``: a CRC-32 of each 512 bytes.
"""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeVar

from sessionizer.home.data_files import list_stored_sizes, read_data
from sessionizer.home.roots import uri_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sessionizer.home.roots import DataPath

_Read = TypeVar("_Read")
_TRIES: Final = 5
_MAGIC: Final = b"crc\x00"
_HEADER: Final = len(_MAGIC) + 4


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
    return Files(uri_of(checkpoint), dict(_sizes(checkpoint)), lambda name: read_data(checkpoint / name))


def _sizes(checkpoint: DataPath) -> Iterator[tuple[str, int]]:
    if isinstance(checkpoint, Path):
        for entry in checkpoint.rglob("*"):
            try:
                if entry.is_file():
                    yield entry.relative_to(checkpoint).as_posix(), entry.stat().st_size
            except FileNotFoundError:  # a running query removes files that it no longer needs
                continue
        return
    yield from list_stored_sizes(checkpoint)


def hadoop_file(name: str) -> str:
    """Return the name of Hadoop's checksums of a file."""
    folder, slash, own = name.rpartition("/")
    return f"{folder}{slash}.{own}.crc"


def hadoop_says(content: bytes, checksums: bytes) -> str | None:
    """Compare ``content`` with Hadoop's file beside it. None if it fits. Raises ValueError if that file is damaged."""
    return hadoop_says_of(io.BytesIO(content), len(content), checksums)


def hadoop_says_of(content: BinaryIO, size: int, checksums: bytes) -> str | None:
    """Compare ``content`` of ``size`` bytes piece by piece. Raises ValueError, OSError."""
    if checksums[: len(_MAGIC)] != _MAGIC or len(checksums) < _HEADER:
        raise ValueError("it is no file of checksums")
    (step,) = struct.unpack(">I", checksums[len(_MAGIC) : _HEADER])
    told = checksums[_HEADER:]
    if not step or len(told) != 4 * -(-size // step):
        return f"it has {size:,} bytes, which its checksums do not fit"
    for number in range(len(told) // 4):
        found = zlib.crc32(content.read(step))
        if found.to_bytes(4) != told[4 * number : 4 * number + 4]:
            return f"it was changed between byte {number * step:,} and {min(size, (number + 1) * step):,}"
    return None
