"""Integrity of the files of a state, by their content and by the checksums beside them.

``NAME.crc`` is Spark's own checksum of a state's file: a CRC-32C of the whole, and its length.
"""

from __future__ import annotations

import io
import struct
import zipfile
from typing import TYPE_CHECKING, Any, Final

import google_crc32c
import pyarrow as pa
from xxhash import xxh32_intdigest

from sessionizer.checkpoint.files import hadoop_file, hadoop_says
from sessionizer.checkpoint.state_files import CHECKSUM
from sessionizer.home.json_record import parse_json

if TYPE_CHECKING:
    from sessionizer.checkpoint.files import Files

_SST_MAGIC: Final = bytes.fromhex("f7cff485b741e288")
"""Last bytes of a table of RocksDB."""
LZ4_MAGIC: Final = b"LZ4Block"
_BLOCK: Final = struct.Struct("<8sBIII")
_STORED: Final = 0x10
_SEED: Final = 0x9747B28C
_CHECKSUM: Final = 0x0FFFFFFF


def find_problem(files: Files, name: str) -> str | None:
    """Return the problem of an existing file. None if it looks whole. Raises OSError.

    A damaged checksum is ignored here.
    """
    content = files.read(name)
    if not content:
        return "it is empty"
    checked = False
    for checksum, says in ((f"{name}{CHECKSUM}", spark_says), (hadoop_file(name), hadoop_says)):
        if checksum not in files.sizes:
            continue
        try:
            wrong = says(content, files.read(checksum))
        except ValueError:
            continue
        if wrong is not None:
            return wrong
        checked = True
    return _wrong_within(name, content, checked=checked)


def wrong_checksum(files: Files, name: str) -> str | None:
    """Return the problem of a checksum of Spark's itself. Only Hadoop's checksum shows a flipped bit."""
    content = files.read(name)
    try:
        spark_says(b"", content)
        hidden = hadoop_file(name)
        return hadoop_says(content, files.read(hidden)) if hidden in files.sizes else None
    except ValueError as error:
        return str(error)


def _wrong_within(name: str, content: bytes, *, checked: bool) -> str | None:
    if name.endswith(".zip"):
        return _wrong_zip(content)
    if name.endswith(".sst"):
        return None if content.endswith(_SST_MAGIC) else "it does not end as a table of RocksDB does: it is cut"
    # With another codec only the checksum shows damage.
    return wrong_with_blocks(content, checked=not checked) if content.startswith(LZ4_MAGIC) else None


def _wrong_zip(content: bytes) -> str | None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            bad = archive.testzip()
            archive.read("metadata")
    except (zipfile.BadZipFile, KeyError, OSError, EOFError, NotImplementedError, ValueError) as error:
        return f"it is no archive of RocksDB: cut, or changed ({error})"
    except Exception as error:  # noqa: BLE001  zlib.error and whatever else a changed archive makes of itself
        return f"it cannot be unpacked ({error})"
    return None if bad is None else f"{bad} in it was changed"


def spark_says(content: bytes, checksum: bytes) -> str | None:
    """Compare ``content`` with Spark's file beside it. None if it fits. Raises ValueError if that file is damaged."""
    try:
        told: dict[str, Any] = parse_json(checksum)
        algorithm, value, length = told["algorithm"], int(told["value"]), int(told["mainFileSize"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise ValueError("it is no checksum") from None
    if len(content) != length:
        return f"it has {len(content):,} bytes, and had {length:,}"
    if algorithm == "CRC32C" and google_crc32c.value(content) != value & 0xFFFFFFFF:
        return "it was changed: its checksum is another"
    return None


def wrong_with_blocks(content: bytes, *, checked: bool) -> str | None:
    """Return the problem of a stream of blocks as lz4-java writes them, the default compression of a state's files.

    A block has its length, packed and unpacked, and a checksum (xxHash, of the unpacked bytes). A block of length zero
    is the last. ``checked``: compute checksums.
    """
    at = 0
    while at < len(content):
        header = content[at : at + _BLOCK.size]
        if len(header) < _BLOCK.size or not header.startswith(LZ4_MAGIC):
            return f"the block at byte {at:,} is none: it is cut, or changed"
        _, token, packed, plain, checksum = _BLOCK.unpack(header)
        at += _BLOCK.size
        if not packed and not plain:
            return None if at == len(content) else f"something follows its end at byte {at:,}"
        if at + packed > len(content):
            return f"the block at byte {at:,} is cut"
        unpacked = _unpack(content[at : at + packed], plain, stored=token & 0xF0 == _STORED)
        if unpacked is None or (checked and xxh32_intdigest(unpacked, _SEED) & _CHECKSUM != checksum):
            return f"the block at byte {at:,} was changed"
        at += packed
    return "its end is missing: it is cut"


def _unpack(block: bytes, length: int, *, stored: bool) -> bytes | None:
    if stored:
        return block if len(block) == length else None
    try:
        plain: bytes = pa.Codec("lz4_raw").decompress(block, length, asbytes=True)
    except (OSError, ValueError, MemoryError):
        return None
    return plain if len(plain) == length else None
