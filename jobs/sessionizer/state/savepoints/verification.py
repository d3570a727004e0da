"""Verification of a savepoint: its digest, and files that are missing, shorter, changed or foreign. Pure.

A savepoint that lost a file is lost as a whole, because half of the open events is worse than none. The remedy is
another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

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
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import CHECKPOINT, GROUP_LOGS, OPEN_EVENTS, SEEN_FILES, TIMEOUTS, SavepointHome
from sessionizer.state.savepoints.manifest import Manifest, SavepointFile

WHAT_IT_HOLDS: Final = {
    OPEN_EVENTS: "open events",
    GROUP_LOGS: "open events as the key groups keep them",
    TIMEOUTS: "the clients' timeouts",
    SEEN_FILES: "the files that were read",
    CHECKPOINT: "the checkpoint",
    "begun.json": "who made it",
}
_LOG: Final = "/_delta_log/"
_NOT_OURS: Final = ".crc"
"""Delta adds checksums to a table's log when it likes."""


class Damage(StrEnum):
    """Damage that a file can have."""

    MISSING = "missing"
    CUT = "of another length"
    CHANGED = "changed"
    STRANGE = "not of this savepoint"
    UNREADABLE = "unreadable"
    UNFIT = "damaged"


@dataclass(frozen=True, slots=True)
class SavepointDamage:
    """A ``damage`` of the file at ``path``, with ``detail`` in words."""

    path: str
    damage: Damage
    detail: str

    def __str__(self) -> str:
        return f"{self.path} is {self.damage}: {self.detail}"


def content_of_file(path: str) -> str:
    """Describe the content of a savepoint's file in words."""
    part = path.split("/", 1)[0]
    held = WHAT_IT_HOLDS.get(part, part)
    return f"the log of the table of {held}" if _LOG in path else held


@dataclass(slots=True)
class FoundFiles:
    """Files that could be read, and why the others could not, by their names.

    ``unfit``: for each file that Hadoop's checksums beside it do not fit, the name of those.
    """

    files: list[SavepointFile] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)

    def findings(self, written: Iterable[SavepointFile]) -> list[SavepointDamage]:
        """List where these files differ from those that were ``written``, by their names."""
        now = {file.path: file for file in self.files}
        wrong = [
            SavepointDamage(name, Damage.UNREADABLE, f"{cause}; it has {content_of_file(name)}")
            for name, cause in self.unreadable.items()
        ]
        for file in written:
            found, content = now.pop(file.path, None), content_of_file(file.path)
            if found == file or file.path in self.unreadable:
                continue
            if found is None:
                damage, detail = Damage.MISSING, f"it had {content}, {file.bytes:,} bytes"
            elif found.bytes != file.bytes:
                damage, detail = Damage.CUT, f"{found.bytes:,} bytes of {content}, and it had {file.bytes:,}"
            else:
                digests = f"its SHA-256 is {found.sha256[:12]}…, and was {file.sha256[:12]}…"
                damage, detail = Damage.CHANGED, f"{content}: {digests}"
            wrong.append(SavepointDamage(file.path, damage, detail))
        changed = {finding.path for finding in wrong}
        wrong += [
            SavepointDamage(hidden, Damage.UNFIT, f"Spark would not read {name}, which is unchanged. Remove {hidden}")
            for name, hidden in self.unfit.items()
            if name not in changed
        ]
        written_since, foreign = "the table has been written since", "it was not there when the savepoint was made"
        strange = [name for name in now if not name.endswith(_NOT_OURS)]
        wrong += [SavepointDamage(name, Damage.STRANGE, written_since if _LOG in name else foreign) for name in strange]
        return sorted(wrong, key=lambda each: each.path)


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
    try:
        checksums = file.with_name(f".{file.name}.crc").read_bytes()
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
    if wrong := digest_files(home).findings(manifest.files):
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
        while chunk := opened.read(2**20):
            digest.update(chunk)
            size += len(chunk)
    return SavepointFile(name, size, digest.hexdigest())
