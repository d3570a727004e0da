"""Contents of RocksDB's tables (``.sst``), and of the LZ4 streams in which Spark writes changelogs and shuffles.

Both have changes of keys. A table has data blocks, an index, and a footer of 53 bytes. A block is followed by the kind
of its compression and a checksum, and an entry names the bytes that its key shares with the key before (RocksDB's
``table/format.h``). Spark writes format 5 with an index of one level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

import pyarrow as pa

SST_MAGIC: Final = bytes.fromhex("f7cff485b741e288")
_FOOTER: Final = 53
_TRAILER: Final = 5
_NEWEST_FORMAT: Final = 5
_SHORT_INDEX: Final = 4
"""Format from which an entry of the index leaves out the length of its value, which is two numbers."""
_SNAPPY: Final = 1
_CODECS: Final = {_SNAPPY: "snappy", 4: "lz4_raw", 5: "lz4_raw", 7: "zstd"}
LZ4_BLOCK: Final = re.compile(rb"LZ4Block([\x10-\x2f])", re.DOTALL)
_LZ4_HEADER: Final = 21
STORED: Final = 0x10


def table_blocks(table: bytes) -> Iterator[bytes]:
    """Yield each data block's keys and values, a zero byte between two. Raises ValueError if damaged."""
    for _, start, size in _index(table):
        yield b"\0".join(part for _, *entry in _entries(_block(table, start, size)) for part in entry)


class KeyChange(Enum):
    """Kind of a change of a key."""

    VALUE = "value"
    OPERAND = "operand"
    END = "end"


_OF_TABLE: Final = {0: KeyChange.END, 1: KeyChange.VALUE, 2: KeyChange.OPERAND, 7: KeyChange.END}
_OF_LOG: Final = {0x01: KeyChange.VALUE, 0x10: KeyChange.END, 0x11: KeyChange.OPERAND}
_END_OF_LOG: Final = 0x00
_LOG_HEADER: Final = re.compile(rb"\x00\x02v[24]", re.DOTALL)
"""Beginning of a changelog whose records have kinds."""
_WITH_IDS: Final = b"\x00\x02v4"
_RANGES: Final = b"rocksdb.range_del"
_TRAILER_OF_KEY: Final = 8
"""Bytes behind a key: the number of the change, and its kind."""


def find_in_table(table: bytes, key: bytes) -> Iterator[tuple[int, KeyChange, bytes]]:
    """Yield each change of ``key`` in a table, with its number. Raises ValueError as ``table_blocks`` does."""
    (about, about_size, *_), _ = _footer(table)
    if any(name == _RANGES for _, name, _ in _entries(_block(table, about, about_size))):
        raise ValueError("a table with deleted ranges, for which there is no decoder")
    for last, start, size in _index(table):
        if last < key:
            continue
        for _, entry, value in _entries(_block(table, start, size)):
            if entry[:-_TRAILER_OF_KEY] == key:
                number = int.from_bytes(entry[-_TRAILER_OF_KEY:], "little")
                yield number >> 8, _change(_OF_TABLE, number & 0xFF), value
        if last > key + b"\xff" * (_TRAILER_OF_KEY + 1):
            return


def find_in_changelog(content: bytes, key: bytes) -> Iterator[tuple[KeyChange, bytes]]:
    """Yield each change of ``key`` in a ``.changelog``, in order. Raises ValueError if it is cut or of another form."""
    plain = decompress_lz4_blocks(content)
    if not _LOG_HEADER.match(plain):
        raise ValueError("a changelog without kinds of records, or of another codec")
    at = len(_WITH_IDS)
    if plain.startswith(_WITH_IDS):
        at += 2 + int.from_bytes(plain[at : at + 2], "big")
    while at < len(plain):
        kind, at = plain[at], at + 1
        if kind == _END_OF_LOG:
            return
        size = int.from_bytes(plain[at : at + 4], "big")
        name, at = plain[at + 4 : at + 4 + size], at + 4 + size
        size, at = max(0, int.from_bytes(plain[at : at + 4], "big", signed=True)), at + 4
        if name == key:
            yield _change(_OF_LOG, kind), plain[at : at + size]
        at += size
    raise ValueError("its end is missing: it is cut")


def _change(kinds: dict[int, KeyChange], kind: int) -> KeyChange:
    if kind not in kinds:
        raise ValueError(f"a change of kind {kind}, for which there is no decoder")
    return kinds[kind]


def _footer(table: bytes) -> tuple[list[int], int]:
    """Return the places and sizes of the list of blocks and of the index, and the format of the table."""
    footer = table[-_FOOTER:]
    version = int.from_bytes(footer[-12:-8], "little")
    if version > _NEWEST_FORMAT or len(footer) < _FOOTER:
        raise ValueError(f"a table of format {version}, and known are those up to {_NEWEST_FORMAT}")
    return _numbers(footer, 1, 4)[0], version


def _index(table: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the last key of each data block, or one behind it, with the place and the size of the block."""
    (_, _, start, size), version = _footer(table)
    for shared, last, handle in _entries(_block(table, start, size), has_value_sizes=version < _SHORT_INDEX):
        if shared:
            raise ValueError("an index in which an entry depends on another, for which there is no decoder")
        (place, length), _ = _numbers(handle, 0, 2)
        yield last, place, length


def _block(table: bytes, start: int, size: int) -> bytes:
    content, trailer = table[start : start + size], table[start + size : start + size + _TRAILER]
    if len(trailer) < _TRAILER:
        raise ValueError("it is cut")
    kind = trailer[0]
    if not kind:
        return content
    if kind not in _CODECS:
        raise ValueError(f"compression {kind} of a block, for which there is no decoder")
    (length,), at = _numbers(content, 0, 1)
    return decompress_block(content if kind == _SNAPPY else content[at:], length, _CODECS[kind])


def _entries(block: bytes, *, has_value_sizes: bool = True) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the number of bytes that an entry shares with the key before it, its key and its value."""
    end, at, key = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little"), 0, b""
    while at < end:
        (shared, own, *sizes), at = _numbers(block, at, 3 if has_value_sizes else 2)
        key, at = key[:shared] + block[at : at + own], at + own
        after = at + sizes[0] if sizes else _numbers(block, at, 2)[1]
        yield shared, key, block[at:after]
        at = after
    if at != end:
        raise ValueError("a block in it was changed")


def _numbers(content: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Read numbers in pieces of 7 bits, the lowest first. Return them and the place after them."""
    found: list[int] = []
    value = shift = 0
    while len(found) < count:
        if at >= len(content):
            raise ValueError("it is cut")
        value, shift, is_last = value | (content[at] & 0x7F) << shift, shift + 7, content[at] < 1 << 7
        at += 1
        if is_last:
            found.append(value)
            value = shift = 0
    return found, at


def decompress_lz4_blocks(content: bytes) -> bytes:
    """Decompress all of Spark's LZ4 streams, each up to its empty block. Raises ValueError if damaged."""
    parts, at, length = [], 0, 0
    while found := LZ4_BLOCK.search(content, at):
        body = found.start() + _LZ4_HEADER
        packed, length = (int.from_bytes(content[body - place : body - place + 4], "little") for place in (12, 8))
        at = body + packed
        if at > len(content):
            raise ValueError("it is cut")
        is_stored = found[1][0] & 0xF0 == STORED
        parts.append(content[body:at] if is_stored else decompress_block(content[body:at], length))
    if length:
        raise ValueError("its end is missing: it is cut")
    return b"".join(parts)


def decompress_block(block: bytes, length: int, codec: str = "lz4_raw") -> bytes:
    """Decompress a block into ``length`` bytes. Raises ValueError if it was changed."""
    try:
        return pa.decompress(block, decompressed_size=length, codec=codec, asbytes=True) if length else b""
    except (OSError, MemoryError, OverflowError) as error:
        raise ValueError(f"a block in it was changed: {error}") from error
