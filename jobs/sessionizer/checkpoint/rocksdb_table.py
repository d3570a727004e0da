"""Tables of RocksDB (``.sst``) and the compressed streams of Spark's state: what is in them, without either.

A table is block based: data blocks, an index of them, and a footer of 53 bytes at the end. A block is followed by the
kind of its compression and a checksum. An entry of a block names the bytes that its key shares with the key before.
Spark writes tables of format 5 with one level of index. The format is described in RocksDB's ``table/format.h``.
"""

from __future__ import annotations

import bz2
import re
import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

MAGIC: Final = 0x88E241B785F4CFF7.to_bytes(8, "little")
"""Last bytes of a table."""
_FOOTER: Final = 53
_NEWEST_FORMAT: Final = 5
_SHARES_INDEX_VALUES: Final = 4
"""Format from which an index entry leaves out the length of its value."""
_BY_ARROW: Final = {1: "snappy", 4: "lz4_raw", 5: "lz4_raw", 7: "zstd"}
_MORE: Final = 0x80


def table_blocks(table: bytes) -> Iterator[bytes]:
    """Yield the whole keys and values of each data block, with a zero byte between any two.

    Raises ValueError if the table is cut or changed, or of an unknown format.
    """
    footer = table[-_FOOTER:]
    if len(footer) < _FOOTER or not footer.endswith(MAGIC):
        raise ValueError("it has no footer of a table of RocksDB: cut, or changed")
    version = int.from_bytes(footer[-12:-8], "little")
    if version > _NEWEST_FORMAT:
        raise ValueError(f"a table of format {version}, and known are those up to {_NEWEST_FORMAT}")
    _, at = _number(footer, 1)  # the handle of the metadata, whose blocks are not compressed
    _, at = _number(footer, at)
    index, _ = _handle(footer, at)
    block = (0, 0)
    is_short = version >= _SHARES_INDEX_VALUES
    for shared, _, value in _entries(_block(table, *index), has_value_sizes=not is_short):
        if shared and is_short:
            delta, _ = _number(value, 0)
            block = (sum(block) + 5, block[1] + (delta >> 1 ^ -(delta & 1)))
        else:
            block, _ = _handle(value, 0)
        yield b"\0".join(part for _, *entry in _entries(_block(table, *block)) for part in entry)


def _block(table: bytes, start: int, size: int) -> bytes:
    content, kind = table[start : start + size], table[start + size : start + size + 1]
    if len(content) < size or not kind:
        raise ValueError("it is cut")
    if kind == b"\0":
        return content
    if kind[0] == 1:
        return decompress_snappy(content)
    length, at = _number(content, 0)
    if kind[0] in _BY_ARROW:
        return _decompress(content[at:], length, _BY_ARROW[kind[0]])
    try:
        return zlib.decompress(content[at:], -15) if kind == b"\2" else bz2.decompress(content[at:])
    except (zlib.error, OSError) as error:
        raise ValueError(f"compression {kind[0]} of a block is unknown, or the block was changed: {error}") from error


def _entries(block: bytes, *, has_value_sizes: bool = True) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the bytes that an entry shares with the key before it, its key and its value."""
    restarts = int.from_bytes(block[-4:], "little")
    end, at, key = len(block) - 4 - 4 * restarts, 0, b""
    if end < 0:
        raise ValueError("a block in it was changed")
    while at < end:
        shared, at = _number(block, at)
        own, at = _number(block, at)
        size, at = _number(block, at) if has_value_sizes else (0, at)
        key, at = key[:shared] + block[at : at + own], at + own
        if has_value_sizes:
            value, at = block[at : at + size], at + size
        else:
            start = at
            _, at = _number(block, at)
            _, at = (0, at) if shared else _number(block, at)
            value = block[start:at]
        if at > end:
            raise ValueError("an entry in it was changed")
        yield shared, key, value


def _handle(content: bytes, at: int) -> tuple[tuple[int, int], int]:
    start, at = _number(content, at)
    size, at = _number(content, at)
    return (start, size), at


def _number(content: bytes, at: int) -> tuple[int, int]:
    """Read a number in pieces of 7 bits. Return it and the place after it."""
    found = shift = 0
    while at < len(content):
        found |= (content[at] & ~_MORE) << shift
        at, shift = at + 1, shift + 7
        if not content[at - 1] & _MORE:
            return found, at
    raise ValueError("it is cut")


_LZ4_BLOCK: Final = re.compile(rb"LZ4Block([\x10-\x2f])", re.DOTALL)
_LZ4_HEADER: Final = 21
_RAW: Final = 0x10
_KIND: Final = 0xF0


def has_lz4_blocks(content: bytes) -> bool:
    """Whether there is a block of Spark's LZ4 stream, wherever it begins."""
    return _LZ4_BLOCK.search(content) is not None


def decompress_lz4_blocks(content: bytes) -> bytes:
    """Decompress every stream of Spark's LZ4 in ``content``, such as those of a changelog or of a shuffle.

    A stream ends with an empty block. Raises ValueError if one is cut or changed.
    """
    parts, at, is_open = [], 0, False
    while found := _LZ4_BLOCK.search(content, at):
        header = content[found.start() : found.start() + _LZ4_HEADER]
        packed, length = (int.from_bytes(header[place : place + 4], "little") for place in (9, 13))
        at = found.start() + len(header) + packed
        if len(header) < _LZ4_HEADER or at > len(content):
            raise ValueError("it is cut")
        body = content[at - packed : at]
        parts.append(body if found[1][0] & _KIND == _RAW else _decompress(body, length, "lz4_raw"))
        is_open = length > 0
    if is_open:
        raise ValueError("it is cut")
    return b"".join(parts)


SNAPPY_MAGIC: Final = b"\x82SNAPPY\0"


def decompress_snappy_blocks(content: bytes) -> bytes:
    """Decompress a stream of Spark's Snappy. Raises ValueError if it is cut or changed."""
    parts, at = [], 16
    while at < len(content):
        size = int.from_bytes(content[at : at + 4])
        if content[at : at + 8] == SNAPPY_MAGIC:  # another stream
            at += 16
            continue
        if at + 4 + size > len(content):
            raise ValueError("it is cut")
        parts.append(decompress_snappy(content[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(parts)


def decompress_snappy(block: bytes) -> bytes:
    """Decompress one block of Snappy, which begins with its length. Raises ValueError."""
    return _decompress(block, _number(block, 0)[0], "snappy")


def _decompress(block: bytes, length: int, codec: str) -> bytes:
    if not length:
        return b""
    try:
        found: bytes = pa.decompress(block, decompressed_size=length, codec=codec, asbytes=True)
    except (OSError, MemoryError, OverflowError) as error:
        raise ValueError(f"a block in it was changed: {error}") from error
    return found
