"""Hadoop's checksums beside a file, ``.NAME.crc``, if Spark writes to a local disk: a CRC-32 of each 512 bytes."""

from __future__ import annotations

import io
import struct
import zlib
from typing import BinaryIO, Final

_MAGIC: Final = b"crc\x00"
_HEADER: Final = len(_MAGIC) + 4


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
        message = "it is no file of checksums"
        raise ValueError(message)
    (step,) = struct.unpack(">I", checksums[len(_MAGIC) : _HEADER])
    told = checksums[_HEADER:]
    if not step or len(told) != 4 * -(-size // step):
        return f"it has {size:,} bytes, which its checksums do not fit"
    for number in range(len(told) // 4):
        found = zlib.crc32(content.read(step))
        if found.to_bytes(4) != told[4 * number : 4 * number + 4]:
            return f"it was changed between byte {number * step:,} and {min(size, (number + 1) * step):,}"
    return None
