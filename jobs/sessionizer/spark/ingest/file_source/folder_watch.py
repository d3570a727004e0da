"""Files and subfolders in the folder of a source that its stream does not read.

A file that changed after the stream took it is one of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sessionizer.checkpoint.files import read_files_since
from sessionizer.counts import count_is, count_text
from sessionizer.errors import StoreUnreachable
from sessionizer.home.roots import DataPath, resolve_place
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.excluded_ranges import file_position
from sessionizer.spark.ingest.file_source.files import checksum_options, literal
from sessionizer.stream_spec.document.source import FilesSource, Source

_HIDDEN: Final = ("_", ".")
_NAMED: Final = 3
LOOKED_AT: Final = 10_000
"""Most entries of a folder that are read, because a driver does not wait for a folder of millions."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Names in the folder, each sorted: files that ``changed``, ``folders`` not looked into, files ``beside`` others.

    Spark takes folders like ``day=1`` for parts of a table. It looks into these, and not at the files beside them.
    """

    changed: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Format each finding for the user."""
        if self.changed:
            yield (
                f"{count_text(len(self.changed), 'file')} changed after the stream took it, and a file is read once: "
                f"{_name_few(self.changed)}. Move complete files into the folder, each under a name of its own"
            )
        if self.folders:
            yield (
                f"not looked into: {count_text(len(self.folders), 'folder')} in the source's folder: "
                f"{_name_few(self.folders)}. Set source.options.recursiveFileLookup to true to read them"
            )
        if self.beside:
            yield (
                f"not read: {count_text(len(self.beside), 'file')} "
                "beside folders that are named like parts of a table: "
                f"{_name_few(self.beside)}. Move them into such a folder"
            )


def look_at_folder(folder: Path, taken: Mapping[str, int], *, recursive: bool, apart: str | None = None) -> PassedOver:
    """Look at the first entries of ``folder``. Raises OSError.

    ``taken``: when read files had changed last (epoch ms). ``apart``: a folder that the stream itself moves files to.
    """
    entries = list(islice(_visible(folder, recursive=recursive), LOOKED_AT))
    changed = [entry.path for entry in entries if _has_changed(entry, taken.get(entry.path))]
    subfolders = [] if recursive else [entry for entry in entries if entry.is_dir() and entry.path != apart]
    parts = [entry for entry in subfolders if "=" in entry.name and _holds_something(entry)]
    folders = [entry.name for entry in subfolders if "=" not in entry.name and _holds_something(entry)]
    beside = [entry.name for entry in entries if parts and entry.is_file()]
    names = (os.path.relpath(path, folder) for path in changed)
    return PassedOver(tuple(sorted(names)), tuple(sorted(folders)), tuple(sorted(beside)))


def _visible(folder: Path, *, recursive: bool) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_HIDDEN):
                continue
            yield entry
            if recursive and entry.is_dir():
                yield from _visible(Path(entry.path), recursive=True)


def _has_changed(entry: os.DirEntry[str], taken_at: int | None) -> bool:
    with suppress(OSError):
        return taken_at is not None and entry.stat().st_mtime_ns // 1_000_000 != taken_at
    return False  # it is gone by now


def _holds_something(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return next(_visible(Path(entry.path), recursive=False), None) is not None
    return False


def _name_few(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


@dataclass(slots=True)
class FolderWatch:
    """Watch over a local folder that reports each thing once. ``warning`` holds all current findings."""

    folder: Path
    checkpoint: DataPath
    source: FilesSource
    warning: str | None = None
    _taken: dict[str, int] = field(default_factory=dict)
    _read_until: int = -1
    _said: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, source: Source, home: StreamHome, lineage: str) -> FolderWatch | None:
        """Watch the folder of ``source``. None if it is no folder of this machine."""
        if source.format != "files" or "://" in (folder := resolve_place(source.path, home.platform)):
            return None
        return cls(Path(folder), home.checkpoint(lineage), source)

    def look(self) -> list[str]:
        """Return lines that were not said before. A folder or list that cannot be read gives none."""
        with suppress(OSError, StoreUnreachable, ValueError, KeyError):
            files, self._read_until = read_files_since(self.checkpoint, self._read_until)
            self._taken |= {unquote(urlparse(file.uri).path): file.changed_at for file in files}
            for path in list(self._taken)[:-LOOKED_AT]:  # of many files only the newest are kept
                del self._taken[path]
            options = {name.lower(): value for name, value in self.source.options.items()}
            recursive, apart = options.get("recursivefilelookup", "").lower() == "true", options.get("sourcearchivedir")
            lines = [*look_at_folder(self.folder, self._taken, recursive=recursive, apart=apart).lines()]
            self.warning = "; ".join(lines) or None
            news = [line for line in lines if line not in self._said]
            self._said.update(news)
            return news
        return []


def files_passed_over(source: Source, platform_home: Path) -> str | None:
    """Say how many files of a local folder are not read because of their names, None if there are none."""
    if source.format != "files" or "://" in (folder := resolve_place(source.path, platform_home)):
        return None
    with suppress(OSError), os.scandir(folder) as entries:
        hidden = (entry for entry in islice(entries, LOOKED_AT) if entry.name.startswith(_HIDDEN) and entry.is_file())
        # a writer leaves such marks beside its files
        names = sorted(each.name for each in hidden if each.name != "_SUCCESS" and not each.name.endswith(".crc"))
        if names:
            files, shown = count_is(len(names), "file"), ", ".join(names[:3])
            return f"{files} not read in {folder}: names that begin with _ or . are hidden ({shown})"
    return None


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
