"""Decoding of any file into pieces of plain bytes, by what the bytes are and not only by the name of the file.

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
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sessionizer.checkpoint.rocksdb_table import (
    MAGIC,
    SNAPPY_MAGIC,
    decompress_lz4_blocks,
    decompress_snappy_blocks,
    has_lz4_blocks,
    table_blocks,
)
from sessionizer.core.wire.codec import open_blob

RAW: Final = "raw"
BETWEEN: Final = b"\0"
"""What stands before and after each value of a column, and between two texts of a footer."""
_SEVERAL_BATCHES: Final = 65_536
_TAR: Final = (257, b"ustar")
_ARROW: Final = re.compile(rb"\xff{4}(?=[\x00-\xf8]..\x00[\x04-\x7f]\x00\x00\x00)", re.DOTALL)
"""Beginning of an Arrow stream: a message of less than 16 MiB, whose table of fields is at its front."""
_EXPECTED: Final = {
    ".parquet": "parquet",
    ".sst": "sst",
    ".zip": "zip",
    ".gz": "gzip",
    ".tgz": "gzip",
    ".zst": "zstd",
    ".xz": "xz",
    ".bz2": "bz2",
    ".lz4": "lz4",
    ".tar": "tar",
    ".arrow": "arrow",
    ".changelog": "",
    ".snapshot": "",
    ".delta": "",
}
"""Decoder that the end of a file's name promises. Empty for any, as Spark's codec of the state is a setting."""
_WITHOUT_DECODER: Final = {
    b"PARE": "Parquet with an encrypted footer",
    b"ORC": "ORC",
    b"Obj\x01": "a container of Avro",
    b"ZV\x01": "LZF",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"\xce\xb2\xcf\x81": "Brotli",
}
_ERRORS: Final = (
    ValueError, OSError, EOFError, KeyError, NotImplementedError, RuntimeError, MemoryError, OverflowError, zlib.error,
    lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, pa.ArrowException,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a file after some decoders. ``way``: their names. ``problem``: why the newest of them failed.

    ``is_text``: the bytes are texts, so nothing in them is the length of a value.
    """

    way: str
    content: bytes
    is_text: bool = False
    problem: str | None = None


def decode(content: bytes, name: str, way: str = "") -> Iterator[Piece]:
    """Yield the content of a file called ``name`` as it is, and each layer that a decoder finds in it."""
    yield Piece(way or RAW, content, is_text=BETWEEN not in content)
    found = [each for each in _CONTAINERS if each[1](content)] or [each for each in _EMBEDDED if each[1](content)]
    for decoder, _, layers in found:
        inner = f"{way} > {decoder}" if way else decoder
        yield Piece(inner, b"")
        try:
            for part, part_name in layers(content):
                yield from [Piece(inner, part, is_text=True)] if part_name is None else decode(part, part_name, inner)
        except _ERRORS as error:
            yield Piece(inner, b"", problem=f"{decoder}: {str(error) or type(error).__name__}")
    expected = next((kind for end, kind in _EXPECTED.items() if name.endswith(end) and not name.startswith(".")), None)
    if expected is not None and expected not in {decoder for decoder, *_ in found} and (expected or not found):
        yield Piece(way or RAW, b"", problem=f"its bytes are not those of a file called {name}: cut, or changed")
    for magic, kind in _WITHOUT_DECODER.items():
        if content.startswith(magic):
            yield Piece(way or RAW, b"", problem=f"it is {kind}, for which there is no decoder")


_Layers = Iterator[tuple[bytes, str | None]]
"""Layers below: the bytes of each, and its name to decode it further, None for texts, which hold nothing encoded."""


def _in_parquet(content: bytes) -> _Layers:
    file = pq.ParquetFile(pa.BufferReader(content))
    about = file.metadata
    texts = [part for pair in (about.metadata or {}).items() for part in pair]
    for group in range(about.num_row_groups):
        for column in range(about.num_columns):
            known = about.row_group(group).column(column).statistics
            if known is not None and known.has_min_max:
                texts += [each for each in (known.min, known.max) if isinstance(each, bytes | str)]
    yield BETWEEN.join(each.encode() if isinstance(each, str) else each for each in texts), None
    for batch in file.iter_batches(_SEVERAL_BATCHES):
        yield from _cells(batch)


def _in_arrow_streams(content: bytes) -> _Layers:
    """Yield the columns of each Arrow stream, wherever it begins."""
    at = 0
    while found := _ARROW.search(content, at):
        source = pa.BufferReader(pa.py_buffer(content)[found.start() :])
        for batch in open_blob(source):
            yield from _cells(batch)
        at = found.start() + source.tell()


def _in_arrow_file(content: bytes) -> _Layers:
    file = pa.ipc.open_file(pa.py_buffer(content))
    for number in range(file.num_record_batches):
        yield from _cells(file.get_batch(number))


def _cells(batch: pa.RecordBatch) -> _Layers:
    for column in batch.columns:
        yield from _leaves(column)


def _leaves(column: pa.Array) -> _Layers:
    """Yield the texts and bytes of a column of any type, joined, and whole numbers as texts."""
    kind: Any = column.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(column.storage)
    elif pa.types.is_dictionary(kind):
        yield from _leaves(column.dictionary_decode())
    elif pa.types.is_struct(kind):
        for child in column.flatten():
            yield from _leaves(child)
    elif pa.types.is_map(kind):
        yield from _leaves(column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(column.flatten())
    elif pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield _joined(column.cast(pa.large_string()).cast(pa.large_binary())), None
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        yield _joined(column.cast(pa.large_binary())), "cells"
    elif not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
        raise ValueError(f"a column of type {kind}, for which there is no decoder")


def _joined(texts: pa.Array) -> bytes:
    return BETWEEN.join([b"", *texts.drop_null().to_pylist(), b""])


def _in_zip(content: bytes) -> _Layers:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            yield archive.read(entry), entry.filename.rpartition("/")[2]


def _in_tar(content: bytes) -> _Layers:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for entry in archive:
            opened = archive.extractfile(entry)
            if opened is not None:
                yield opened.read(), entry.name.rpartition("/")[2]


def _in_stream(decompress: Callable[[bytes], bytes]) -> Callable[[bytes], _Layers]:
    return lambda content: iter([(decompress(content), "stream")])


def _by_arrow(codec: str) -> Callable[[bytes], bytes]:
    return lambda content: bytes(pa.CompressedInputStream(pa.BufferReader(content), codec).read())


def _has_arrow_stream(content: bytes) -> bool:
    return not content.startswith(b"\x7fELF") and _ARROW.search(content) is not None


def _begins(magic: bytes, at: int = 0) -> Callable[[bytes], bool]:
    return lambda content: content.startswith(magic, at)


_Decoder = tuple[str, Callable[[bytes], bool], Callable[[bytes], _Layers]]
"""Name of a decoder, whether some bytes are its, and what it makes of them."""
_CONTAINERS: Final[list[_Decoder]] = [
    ("parquet", _begins(b"PAR1"), _in_parquet),
    ("sst", lambda content: content.endswith(MAGIC), lambda table: ((block, "block") for block in table_blocks(table))),
    ("zip", _begins(b"PK\x03\x04"), _in_zip),
    ("gzip", _begins(b"\x1f\x8b\x08"), _in_stream(gzip.decompress)),
    ("zstd", _begins(b"\x28\xb5\x2f\xfd"), _in_stream(_by_arrow("zstd"))),
    ("xz", _begins(b"\xfd7zXZ\0"), _in_stream(lzma.decompress)),
    ("bz2", _begins(b"BZh"), _in_stream(bz2.decompress)),
    ("lz4", _begins(b"\x04\x22\x4d\x18"), _in_stream(_by_arrow("lz4"))),
    ("snappy", _begins(SNAPPY_MAGIC), _in_stream(decompress_snappy_blocks)),
    ("tar", _begins(_TAR[1], _TAR[0]), _in_tar),
    ("arrow", _begins(b"ARROW1\0\0"), _in_arrow_file),
]
_EMBEDDED: Final[list[_Decoder]] = [
    ("lz4 blocks", has_lz4_blocks, _in_stream(decompress_lz4_blocks)),
    ("arrow", _has_arrow_stream, _in_arrow_streams),
]
"""Decoders of what may begin anywhere, used if the bytes as a whole are of no other form."""
