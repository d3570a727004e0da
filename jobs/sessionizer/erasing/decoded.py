"""Decoders of files, chosen by what the bytes are and not only by the name of the file.

Decoders nest: a zip has tables of RocksDB, whose values have blobs of Arrow, whose columns have texts. Each layer is a
piece, also the bytes as they are. A piece names its layers, such as ``zip > sst > arrow``.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sessionizer.checkpoint.rocksdb_table import LZ4_BLOCK, SST_MAGIC, decompress_lz4_blocks, table_blocks
from sessionizer.core.wire.codec import open_blob

RAW: Final = "raw"
BETWEEN: Final = b"\0"
"""Byte before and after each value of a column."""
_ARROW: Final = re.compile(rb"\xff{4}(?=[\x00-\xf8]..\x00[\x04-\x7f]\x00\x00\x00)", re.DOTALL)
"""Beginning of an Arrow stream: a message of less than 16 MiB, whose table of fields is at its front."""
_ARROW_END: Final = bytes.fromhex("ffffffff00000000")
_ENCODED: Final = re.compile(
    r"[^.].*\.(parquet|arrow|sst|zip|gz|tgz|tar|zst|xz|bz2|lz4|changelog|snapshot|delta)", re.DOTALL
)
"""Names of files that a decoder must know. Hadoop's checksums have names that begin with a dot."""
_UNKNOWN: Final = {
    b"PARE": "Parquet with an encrypted footer",
    b"ORC": "ORC",
    b"Obj\x01": "a container of Avro",
    b"ZV\x01": "LZF",
    b"\x82SNAPPY\0": "Spark's Snappy",
    b"7z\xbc\xaf\x27\x1c": "7z",
}
"""Compressed forms without a decoder, by their first bytes."""
_ERRORS: Final = (
    ValueError, OSError, EOFError, KeyError, NotImplementedError, RuntimeError, MemoryError, OverflowError, zlib.error,
    lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, pa.ArrowException,
)  # fmt: skip


class Numbers(StrEnum):
    """Places in which digits may be a value, such as the id of a user, and not a size, a time or a batch."""

    ANYWHERE = "anywhere"
    IN_QUOTES = "in quotes"
    """Records of the product and of Spark write texts in quotes."""
    BETWEEN_QUOTES = "between quotes"
    """Delta writes JSON with statistics within JSON, in which a value is a whole text."""
    NOWHERE = "nowhere"
    """A key is a text in each table and state."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a file after some decoders, which ``way`` names. ``problem``: why the last decoder failed.

    ``is_text``: the bytes are texts, so no byte in them is the length of a value. ``numbers``: where a number in them
    may be a value that is written in digits.
    """

    way: str
    content: bytes
    is_text: bool = False
    problem: str | None = None
    numbers: Numbers = Numbers.ANYWHERE


_Layers = Iterator[tuple[bytes, str | None]]
"""Bytes of each layer below, and its name to decode it further. None or a ``Numbers``: texts without a layer below."""
_Decoder = tuple[str, Callable[[bytes], bool], Callable[[bytes], _Layers]]
"""Name of a decoder, whether some bytes are its, and their layers."""


def decode_layers(content: bytes, name: str, way: str = "") -> Iterator[Piece]:
    """Yield the content of a file called ``name`` as it is, and each layer that a decoder finds in it."""
    is_text = BETWEEN not in content
    quotes = is_text and not name.endswith((".log", ".html", ".txt"))  # these have sentences, which quote nothing
    numbers = Numbers.IN_QUOTES if quotes else Numbers.ANYWHERE
    yield Piece(way or RAW, content, is_text=is_text, numbers=numbers)
    found = next((each for each in _DECODERS if each[1](content)), None)
    if found is not None:
        decoder, _, layers = found
        inner = f"{way} > {decoder}" if way else decoder
        yield Piece(inner, b"")
        try:
            for part, part_name in layers(content):
                if part_name is None or part_name == Numbers.NOWHERE:
                    yield Piece(inner, part, is_text=True, numbers=Numbers(part_name or Numbers.ANYWHERE))
                else:
                    yield from decode_layers(part, part_name, inner)
        except _ERRORS as error:
            yield Piece(inner, b"", problem=str(error) or type(error).__name__)
    unknown = next((kind for magic, kind in _UNKNOWN.items() if content.startswith(magic)), None)
    if unknown:
        yield Piece(way or RAW, b"", problem=f"it is {unknown}, for which there is no decoder")
    elif found is None and _ENCODED.fullmatch(name):
        yield Piece(way or RAW, b"", problem=f"its bytes are not those of a file called {name}: cut, or changed")


def _read_parquet(content: bytes) -> _Layers:
    file = pq.ParquetFile(pa.BufferReader(content))
    about = file.metadata.to_dict()
    known = [column["statistics"] or {} for group in about["row_groups"] for column in group["columns"]]
    texts = [each for statistics in known for each in (statistics.get("min"), statistics.get("max"))]
    parts = [part for pair in (file.metadata.metadata or {}).items() for part in pair]
    parts += [each.encode() if isinstance(each, str) else each for each in texts if isinstance(each, bytes | str)]
    yield BETWEEN.join(parts), "footer"
    for batch in file.iter_batches():
        yield from _read_leaves(batch.to_struct_array())


def _read_arrow_streams(content: bytes) -> _Layers:
    """Yield the columns of each Arrow stream, wherever it begins. A file of Arrow has one, too."""
    at = 0
    while found := _ARROW.search(content, at):
        source = pa.BufferReader(pa.py_buffer(content)[found.start() :])
        for batch in open_blob(source):
            yield from _read_leaves(batch.to_struct_array())
        at = found.start() + source.tell()
        if not content.startswith(_ARROW_END, at - len(_ARROW_END)):
            raise ValueError("the end of an Arrow stream is missing: it is cut")


def _read_leaves(column: pa.Array) -> _Layers:
    """Yield the texts, bytes and whole numbers of a column of any type."""
    kind: Any = column.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _read_leaves(column.storage)
    elif pa.types.is_dictionary(kind):
        yield from _read_leaves(column.dictionary_decode())
    elif pa.types.is_map(kind):
        yield from _read_leaves(column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _read_leaves(column.flatten())
    elif pa.types.is_struct(kind):
        for child in column.flatten():
            yield from _read_leaves(child)
    elif pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield _joined(column.cast(pa.large_string())), Numbers.NOWHERE if pa.types.is_integer(kind) else None
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        yield _joined(column), "cells"
    elif not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
        raise ValueError(f"a column of type {kind}, for which there is no decoder")


def _joined(values: pa.Array) -> bytes:
    return BETWEEN.join([b"", *values.drop_null().cast(pa.large_binary()).to_pylist(), b""])


def _read_zip(content: bytes) -> _Layers:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            yield archive.read(entry), entry.filename.rpartition("/")[2]


def _read_tar(content: bytes) -> _Layers:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for entry in archive:
            opened = archive.extractfile(entry)
            if opened is not None:
                yield opened.read(), entry.name.rpartition("/")[2]


def _stream(decompress: Callable[[bytes], bytes]) -> Callable[[bytes], _Layers]:
    return lambda content: iter([(decompress(content), "stream")])


def _arrow_stream(codec: str) -> Callable[[bytes], _Layers]:
    return _stream(lambda content: bytes(pa.CompressedInputStream(pa.BufferReader(content), codec).read()))


def _begins(magic: bytes, at: int = 0) -> Callable[[bytes], bool]:
    return lambda content: content.startswith(magic, at)


def _read_sst(content: bytes) -> _Layers:
    yield from ((each, "block") for each in table_blocks(content))


_DECODERS: Final[list[_Decoder]] = [
    ("parquet", _begins(b"PAR1"), _read_parquet),
    ("sst", lambda content: content.endswith(SST_MAGIC), _read_sst),
    ("zip", _begins(b"PK\x03\x04"), _read_zip),
    ("gzip", _begins(b"\x1f\x8b\x08"), _stream(gzip.decompress)),
    ("zstd", _begins(b"\x28\xb5\x2f\xfd"), _arrow_stream("zstd")),
    ("xz", _begins(b"\xfd7zXZ\0"), _stream(lzma.decompress)),
    ("bz2", _begins(b"BZh"), _stream(bz2.decompress)),
    ("lz4", _begins(b"\x04\x22\x4d\x18"), _arrow_stream("lz4")),
    ("tar", _begins(b"ustar", 257), _read_tar),
    # these two may begin anywhere, such as a block of Arrow in bytes that LZ4 could not make shorter
    ("lz4 blocks", lambda content: bool(LZ4_BLOCK.search(content)), _stream(decompress_lz4_blocks)),
    ("arrow", lambda content: not content.startswith(b"\x7fELF") and bool(_ARROW.search(content)), _read_arrow_streams),
]
"""The first one whose bytes these are is used."""
