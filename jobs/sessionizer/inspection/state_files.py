"""The files of a state: which batch and store each is of, and which of them one version is made of.

Spark calls the state after batch ``b`` version ``b + 1``. A version is the newest whole one before it (``.zip`` of
RocksDB, ``.snapshot`` of the provider in files) and what each batch since has changed (``.changelog``, ``.delta``). In
format 2 the names hold an id as well, which the batch's commit tells.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sessionizer.inspection.files import Files
    from sessionizer.inspection.logs import CommitEntry

STATE: Final = "state"
WHOLE: Final = (".zip", ".snapshot")
CHANGES: Final = (".changelog", ".delta")
CHECKSUM: Final = ".crc"
_STORE: Final = re.compile(rf"{STATE}/(\d+)/(\d+)/(?:([^/]+)/)?([^/]+)")
_VERSION: Final = re.compile(r"(\d+)(?:_([^_.]+))?(\.zip|\.snapshot|\.changelog|\.delta)")
_OTHER_FOLDERS: Final = ("SSTs", "_metadata", "logs")
DEFAULT: Final = "default"


@dataclass(frozen=True, order=True, slots=True)
class StorePlace:
    """One store of one partition of an operator; ``folder`` is where its files are."""

    operator: int
    partition: int
    store: str
    folder: str = field(compare=False)


@dataclass(frozen=True, order=True, slots=True)
class VersionFile:
    """A file of one version of a store. ``id``: of the try that wrote it, None before format 2."""

    version: int
    kind: str
    name: str
    id: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is a version by itself."""
        return self.kind in WHOLE


def version_files(files: Files) -> dict[StorePlace, list[VersionFile]]:
    """The files of each store that name a version, the oldest first."""
    found: dict[StorePlace, list[VersionFile]] = {}
    for name in files.below(STATE):
        place = _STORE.fullmatch(name)
        if place is None:
            continue
        folder, _, own = name.rpartition("/")
        key = StorePlace(int(place[1]), int(place[2]), place[3] or DEFAULT, folder)
        version = _VERSION.fullmatch(own)
        if version is not None:
            found.setdefault(key, []).append(VersionFile(int(version[1]), version[3], name, version[2]))
        elif place[3] not in _OTHER_FOLDERS:
            found.setdefault(key, [])
    return {place: sorted(found[place]) for place in sorted(found)}


@dataclass(frozen=True, slots=True)
class Chain:
    """What one version of a store is made of: ``names``; ``lacking``: names, or what stands for them, that are gone."""

    version: int
    names: tuple[str, ...]
    lacking: tuple[str, ...] = ()


def chain_of(
    place: StorePlace,
    there: Sequence[VersionFile],
    version: int,
    ids: Mapping[int, str],
    spoilt: frozenset[str] = frozenset(),
) -> Chain:
    """The files of ``version``. ``ids``: of each version that the commits tell, empty before format 2.

    ``spoilt``: names of whole versions that are not to be used.
    """
    ours = [file for file in there if file.version <= version and _is_of(file, ids)]
    whole = [file for file in ours if file.is_whole and file.name not in spoilt]
    base = max(whole, default=None, key=lambda file: file.version)
    first = base.version + 1 if base else 1
    changes = {file.version: file for file in ours if not file.is_whole and file.version >= first}
    names = [file.name for _, file in sorted(changes.items())]
    suffix = _suffix_of_changes(there)
    lacking = [
        f"{place.folder}/{number}{f'_{ids[number]}' if number in ids else ''}{suffix}"
        for number in range(first, version + 1)
        if number not in changes
    ]
    return Chain(version, (*([base.name] if base else []), *names), tuple(lacking))


def _is_of(file: VersionFile, ids: Mapping[int, str]) -> bool:
    """A version that no commit tells of any more counts as it is."""
    return file.version not in ids or file.id is None or file.id == ids[file.version]


def _suffix_of_changes(there: Sequence[VersionFile]) -> str:
    kinds = {file.kind for file in there}
    if ".delta" in kinds or ".snapshot" in kinds:
        return ".delta"
    return ".zip" if kinds == {".zip"} else ".changelog"


def ids_of(place: StorePlace, stores: Sequence[str], commits: Mapping[int, CommitEntry]) -> dict[int, str]:
    """The id of each version of a store, as far as commits are kept. ``stores``: the operator's, in its order."""
    number = stores.index(place.store) if place.store in stores else 0
    return {batch + 1: found for batch, commit in commits.items() if (found := _id(commit, place, number)) is not None}


def _id(commit: CommitEntry, place: StorePlace, number: int) -> str | None:
    partitions = commit.state_ids.get(place.operator, [])
    if place.partition >= len(partitions) or number >= len(partitions[place.partition]):
        return None
    return partitions[place.partition][number]


def shared_in(files: Files, name: str) -> Iterator[tuple[str, int]]:
    """The files that a ``.zip`` of RocksDB leaves to others, and how many bytes each has; none of one that is damaged.

    Raises OSError.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(files.read(name))) as archive:
            metadata = archive.read("metadata")
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, ValueError):
        return
    folder = name.rpartition("/")[0]
    for shared, length in re.findall(rb'"dfsSstFileName":"([^"]+)","sizeBytes":(\d+)', metadata):
        yield f"{folder}/SSTs/{shared.decode()}", int(length)
