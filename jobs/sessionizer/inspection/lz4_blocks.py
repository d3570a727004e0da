"""Streams of blocks as lz4-java writes them: the default compression of a state's changes and snapshots.

A block has its length, packed and unpacked, and a checksum (xxHash, of the unpacked bytes). A block of length zero is
the last.
"""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

MAGIC: Final = b"LZ4Block"
_HEADER: Final = struct.Struct("<8sBIII")
_STORED: Final = 0x10
_SEED: Final = 0x9747B28C
_CHECKSUM: Final = 0x0FFFFFFF
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_WORD: Final = 0xFFFFFFFF


def wrong_with_blocks(content: bytes, *, checked: bool) -> str | None:
    """Return the problem of a stream of blocks. None if there is none.

    ``checked``: compute checksums, 0.3 µs a byte.
    """
    at = 0
    while at < len(content):
        header = content[at : at + _HEADER.size]
        if len(header) < _HEADER.size or not header.startswith(MAGIC):
            return f"the block at byte {at:,} is none: it is cut, or changed"
        _, token, packed, plain, checksum = _HEADER.unpack(header)
        at += _HEADER.size
        if not packed and not plain:
            return None if at == len(content) else f"something follows its end at byte {at:,}"
        if at + packed > len(content):
            return f"the block at byte {at:,} is cut"
        unpacked = _unpacked(content[at : at + packed], plain, stored=token & 0xF0 == _STORED)
        if unpacked is None or (checked and xxhash32(unpacked, _SEED) & _CHECKSUM != checksum):
            return f"the block at byte {at:,} was changed"
        at += packed
    return "its end is missing: it is cut"


def _unpacked(block: bytes, length: int, *, stored: bool) -> bytes | None:
    if stored:
        return block if len(block) == length else None
    try:
        plain: bytes = pa.Codec("lz4_raw").decompress(block, length, asbytes=True)
    except (OSError, ValueError, MemoryError):
        return None
    return plain if len(plain) == length else None


def xxhash32(content: bytes, seed: int) -> int:
    """Compute the 32-bit xxHash."""
    one, two, three, four, five = _PRIMES
    whole = len(content) - len(content) % 16
    if whole:
        lanes = [(seed + one + two) & _WORD, (seed + two) & _WORD, seed, (seed - one) & _WORD]
        for place, word in enumerate(struct.unpack_from(f"<{whole // 4}I", content)):
            mixed = (lanes[place & 3] + word * two) & _WORD
            lanes[place & 3] = (((mixed << 13) | (mixed >> 19)) * one) & _WORD
        found = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        found = seed + five
    found = (found + len(content)) & _WORD
    words = whole + (len(content) - whole) // 4 * 4
    for (word,) in struct.iter_unpack("<I", content[whole:words]):
        found = (_rotated((found + word * three) & _WORD, 17) * four) & _WORD
    for byte in content[words:]:
        found = (_rotated((found + byte * five) & _WORD, 11) * one) & _WORD
    found = ((found ^ (found >> 15)) * two) & _WORD
    found = ((found ^ (found >> 13)) * three) & _WORD
    return found ^ (found >> 16)


def _rotated(word: int, by: int) -> int:
    return ((word << by) | (word >> (32 - by))) & _WORD
