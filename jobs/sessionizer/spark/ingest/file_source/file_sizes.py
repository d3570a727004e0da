"""Sizes of files as they are now, and files that are gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from pyspark.errors import AnalysisException

from sessionizer.lineage.excluded_ranges import file_position
from sessionizer.spark.ingest.file_source.files import checksum_options, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


def sizes_of(spark: SparkSession, uris: Sequence[str]) -> dict[str, int | None]:
    """Return the size of each file in bytes, None for one that is gone."""
    local = {uri: path for uri in uris if (path := local_path(uri)) is not None}
    elsewhere = _sizes_elsewhere(spark, [uri for uri in uris if uri not in local])
    return {**{uri: _size(path) for uri, path in local.items()}, **elsewhere}


def local_path(uri: str) -> Path | None:
    """Return the path of a file on a file system that is mounted here, None for another."""
    return Path(unquote(urlparse(uri).path)) if urlparse(uri).scheme == "file" else None


def path_for_reader(uri: str) -> str:
    """Write a URI as Spark's readers want it: not encoded, and without characters of a pattern."""
    return literal(unquote(uri))


def read_bytes(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Read files of one file system as they are: ``path, modificationTime, length, content``."""
    reader = spark.read.format("binaryFile").options(**checksum_options(uris[0]))
    return reader.load([path_for_reader(uri) for uri in uris])


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _sizes_elsewhere(spark: SparkSession, uris: Sequence[str]) -> dict[str, int | None]:
    if not uris:
        return {}
    try:
        files = read_bytes(spark, uris)
        found = {unquote(file_position(row.path)): row.length for row in files.select("path", "length").collect()}
    except AnalysisException:  # one of them is gone
        if len(uris) == 1:
            return {uris[0]: None}
        return {uri: size for one in uris for uri, size in _sizes_elsewhere(spark, [one]).items()}
    return {uri: found.get(unquote(uri)) for uri in uris}
