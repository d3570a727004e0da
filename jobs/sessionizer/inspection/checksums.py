"""The two kinds of checksums beside the files of a checkpoint.

``.NAME.crc`` is Hadoop's, if Spark writes to a local disk: a CRC-32 of each 512 bytes. ``NAME.crc`` is Spark's own, for
the state's files: a CRC-32C of the whole, and its length.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

_MAGIC: Final = b"crc\x00"
_HEADER: Final = len(_MAGIC) + 4
_LANES: Final = 4096
_BITS: Final = np.uint32(1) << np.arange(32, dtype=np.uint32)


def _byte_table() -> Words:
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, np.uint32(0x82F63B78) ^ (values >> np.uint32(1)), values >> np.uint32(1))
    return values.astype(np.uint32)


_TABLE: Final = _byte_table()
_PLAIN: Final[list[int]] = _TABLE.tolist()


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


def spark_says(content: bytes, checksum: bytes) -> str | None:
    """Compare ``content`` with Spark's file beside it. None if it fits. Raises ValueError if that file is damaged."""
    try:
        told: dict[str, Any] = json.loads(checksum)
        algorithm, value, length = told["algorithm"], int(told["value"]), int(told["mainFileSize"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        message = "it is no checksum"
        raise ValueError(message) from None
    if len(content) != length:
        return f"it has {len(content):,} bytes, and had {length:,}"
    if algorithm == "CRC32C" and crc32c(content) != value & 0xFFFFFFFF:
        return "it was changed: its checksum is another"
    return None


def crc32c(content: bytes) -> int:
    """Compute the CRC-32C (Castagnoli). Large contents are computed in lanes side by side, then combined."""
    whole = len(content) - len(content) % _LANES if len(content) >= 16 * _LANES else 0
    register = 0xFFFFFFFF
    if whole:
        before = np.array([register], np.uint32)
        register = int(_mapped(_zeros(whole), before)[0]) ^ _checksum_lanes(content[:whole])
    for byte in content[whole:]:
        register = _PLAIN[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ 0xFFFFFFFF


def _checksum_lanes(content: bytes) -> int:
    """Return the register after ``content``, starting from zero."""
    columns = np.ascontiguousarray(np.frombuffer(content, np.uint8).reshape(_LANES, -1).T)
    registers = np.zeros(_LANES, np.uint32)
    for column in columns:
        registers = _TABLE[(registers ^ column) & 0xFF] ^ (registers >> np.uint32(8))
    images = _zeros(len(columns))
    while len(registers) > 1:
        registers = _mapped(images, registers[::2]) ^ registers[1::2]
        images = _mapped(images, images)
    return int(registers[0])


def _zeros(count: int) -> Words:
    """Return the image of each bit of a register after ``count`` bytes of zero.

    The map is linear: its powers are squares.
    """
    images, step = _BITS, _TABLE[_BITS & 0xFF] ^ (_BITS >> np.uint32(8))
    while count:
        if count & 1:
            images = _mapped(step, images)
        step, count = _mapped(step, step), count >> 1
    return images


def _mapped(images: Words, registers: Words) -> Words:
    """Return the xor of the images of the bits that are set."""
    found = np.zeros(len(registers), np.uint32)
    for bit, image in enumerate(images):
        found ^= np.where((registers >> np.uint32(bit)) & np.uint32(1), image, np.uint32(0))
    return found
