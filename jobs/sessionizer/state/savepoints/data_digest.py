"""The files of a savepoint with their SHA-256, as they are now."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.files import hadoop_file, hadoop_says_of
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.data_files import (
    data_exists,
    files_below,
    is_folder,
    list_entries,
    open_data,
    relative_name,
    several_at_a_time,
)
from sessionizer.state.savepoints.manifest import SavepointFile
from sessionizer.state.savepoints.verification import SavepointDamage, findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import SavepointHome
    from sessionizer.state.savepoints.manifest import Manifest

_CHUNK: Final = 2**20


@dataclass(slots=True)
class FoundFiles:
    """Files that could be read, and why the others could not, by their names.

    ``unfit``: for each file that Hadoop's checksums beside it do not fit, the name of those.
    """

    files: list[SavepointFile] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)

    def findings(self, written: Iterable[SavepointFile]) -> list[SavepointDamage]:
        """List where these files differ from those that were ``written``."""
        return findings(written, self.files, self.unreadable, self.unfit)


def data_files(home: SavepointHome) -> Iterator[SavepointFile]:
    """Yield every file of the savepoint that its manifest covers. Raises OSError."""
    yield from several_at_a_time(lambda covered: digest_file(*covered), _covered_files(home))


def digest_files(home: SavepointHome) -> FoundFiles:
    """Read every covered file, whatever its state. Raises OSError for a folder that cannot be listed."""
    found = FoundFiles()
    for name, read, hidden in several_at_a_time(_read_or_refused, _covered_files(home)):
        if isinstance(read, SavepointFile):
            found.files.append(read)
        else:
            found.unreadable[name] = read.strerror or str(read)
        if hidden is not None:
            found.unfit[name] = hidden
    return found


def _read_or_refused(covered: tuple[str, DataPath]) -> tuple[str, SavepointFile | OSError, str | None]:
    name, file = covered
    try:
        return name, digest_file(name, file), _unfit_checksums(name, file)
    except OSError as error:
        return name, error, None


def _unfit_checksums(name: str, file: DataPath) -> str | None:
    """Name Hadoop's checksums beside a local file if they do not fit it: Spark would not read it. Raises OSError."""
    if not isinstance(file, Path):
        return None
    hidden = file.with_name(f".{file.name}.crc")
    try:
        checksums = hidden.read_bytes()
    except FileNotFoundError:
        return None
    try:
        with file.open("rb") as content:
            wrong = hadoop_says_of(content, file.stat().st_size, checksums)
    except ValueError as error:
        wrong = str(error)
    return None if wrong is None else hadoop_file(name)


def require_undamaged(home: SavepointHome, manifest: Manifest) -> None:
    """Raise UnusableSavepoint if a file differs from the written one, as ``savepoint verify`` finds it."""
    wrong = digest_files(home).findings(manifest.files)
    if wrong:
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise UnusableSavepoint(manifest.id, f"{wrong[0]}{more}")


def _covered_files(home: SavepointHome) -> Iterator[tuple[str, DataPath]]:
    """Yield all files but the manifest itself and the marks that processes leave beside it."""
    if data_exists(home.begun):
        yield home.begun.name, home.begun
    for entry in list_entries(home.root):
        if is_folder(entry) and entry.name != home.readers.name:
            for file in files_below(entry):
                yield relative_name(file, home.root), file


def digest_file(name: str, file: DataPath) -> SavepointFile:
    """Digest the file, called ``name``. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    with open_data(file) as opened:
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return SavepointFile(name, size, digest.hexdigest())
