"""Files that are not what their names and the spec say, found before a batch reads them.

Spark decompresses by the end of a name. A compressed file under another name is read as lines of garbage. Some files
that are not compressed, and have the name of a compression, are read as empty, without an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from sessionizer.errors import StoreUnreachable
from sessionizer.home.data_files import open_data, several_at_a_time
from sessionizer.home.roots import folder_at, object_store
from sessionizer.spark.ingest.file_source.csv_headers import other_headers
from sessionizer.spark.ingest.file_source.file_sizes import local_path
from sessionizer.spark.ingest.file_source.parquet_types import find_unfit_types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from sessionizer.stream_spec.document.source import FilesSource

_LONGEST_SIGN: Final = 16


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of file by the bytes that it begins with. ``suffix``: the end of the names by which Spark reads it."""

    name: str
    sign: re.Pattern[bytes]
    suffix: str | None = None


_KINDS: Final = (
    _Kind("gzip", re.compile(rb"\x1f\x8b\x08"), ".gz"),
    _Kind("bzip2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), ".bz2"),
    _Kind("zstd", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), ".zst"),
    _Kind("xz", re.compile(rb"\xfd7zXZ\x00")),
    _Kind("zip", re.compile(rb"PK\x03\x04")),
    _Kind("7z", re.compile(rb"7z\xbc\xaf\x27\x1c")),
    _Kind("lz4 in frames", re.compile(rb"\x04\x22\x4d\x18")),
    _Kind("snappy in frames", re.compile(rb"\xff\x06\x00\x00sNaPpY")),
    _Kind("Parquet", re.compile(rb"PAR1\x15")),
    _Kind("Avro", re.compile(rb"Obj\x01")),
)
_BLOCKS_OF_HADOOP: Final = (".lz4", ".snappy")
"""Ends of names of files that begin with the length of a block, and of its compressed part, four bytes each."""


def find_unfit_files(spark: SparkSession, source: FilesSource, uris: Sequence[str]) -> dict[str, str]:
    """Find the files that cannot be read as those of the source, each with the reason."""
    if source.encoding == "parquet":
        return find_unfit_types(spark, source, uris)  # Spark says what else is wrong with them
    found = {
        uri: problem
        for uri, problem in zip(uris, several_at_a_time(_problem, uris), strict=True)
        if problem is not None
    }
    return found | other_headers(spark, source, [uri for uri in uris if uri not in found])


def _problem(uri: str) -> str | None:
    """Read the beginning of a file. The query that reads it reports the errors of its storage."""
    path = local_path(uri) or (folder_at(unquote(uri)) if object_store(uri) else None)
    if path is None:
        return None
    try:
        with open_data(path) as file:
            begin = file.read(_LONGEST_SIGN)
            return name_problem(path.name, begin, file.seek(0, 2))
    except (OSError, StoreUnreachable):
        return None


def name_problem(name: str, begin: bytes, size: int) -> str | None:
    """Say why Spark cannot read a file of this ``name`` and ``begin``, None if nothing speaks against it."""
    if not begin:
        return None
    kind = next((kind for kind in _KINDS if kind.sign.match(begin)), None)
    if kind is not None and kind.suffix is None:
        return f"it is {kind.name}, which Spark does not read as text"
    if kind is not None and not name.endswith(kind.suffix or ""):
        return f"it is {kind.name}, which Spark reads only if the name ends in {kind.suffix}"
    named = next((each for each in _KINDS if each.suffix and name.endswith(each.suffix)), None)
    if named is not None and named is not kind:
        return f"its name ends in {named.suffix}, but it is not {named.name}"
    if name.endswith(_BLOCKS_OF_HADOOP) and int.from_bytes(begin[4:8], "big") > size:
        return f"it is not {name.rpartition('.')[2]} as Hadoop writes it, which Spark reads under this name"
    return None
