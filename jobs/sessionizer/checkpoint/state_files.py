"""Files of a state: the batch and store of each, and the files that make up one version.

Spark calls the state after batch ``b`` version ``b + 1``. A version is the newest whole one before it and the changes
of each batch since. Whole versions are ``.zip`` (RocksDB) or ``.snapshot`` (the provider in files), changes are
``.changelog`` or ``.delta``. In format 2 the names also hold an id, which the batch's commit has.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.names import STATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sessionizer.checkpoint.files import Files
    from sessionizer.checkpoint.log_entries import CommitEntry

WHOLE: Final = (".zip", ".snapshot")
CHECKSUM: Final = ".crc"
_STORE: Final = re.compile(rf"{STATE}/(\d+)/(\d+)/(?:([^/]+)/)?([^/]+)")
_VERSION: Final = re.compile(r"(\d+)(?:_([^_.]+))?(\.zip|\.snapshot|\.changelog|\.delta)")
_OTHER_FOLDERS: Final = ("SSTs", "_metadata", "logs")
DEFAULT: Final = "default"


@dataclass(frozen=True, order=True, slots=True)
class StorePlace:
    """Store of one partition of an operator. ``folder`` is the folder of its files."""

    operator: int
    partition: int
    store: str
    folder: str = field(compare=False)


@dataclass(frozen=True, order=True, slots=True)
class VersionFile:
    """File of one version of a store. ``id``: of the try that wrote it, None before format 2."""

    version: int
    kind: str
    name: str
    id: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is a version by itself."""
        return self.kind in WHOLE


def version_files(files: Files) -> dict[StorePlace, list[VersionFile]]:
    """Return the files of each store that name a version, the oldest first."""
    found: dict[StorePlace, list[VersionFile]] = {}
    for name in files.list_below(STATE):
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
    """Files of one version of a store: ``names``. ``lacking``: missing names, or placeholders for them."""

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
    """Return the files of ``version``. ``ids``: of each version in the commits, empty before format 2.

    ``spoilt``: names of whole versions that must not be used.
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
    """Whether the file belongs to its version by the commits. A version without a commit counts as it is."""
    return file.version not in ids or file.id is None or file.id == ids[file.version]


def _suffix_of_changes(there: Sequence[VersionFile]) -> str:
    kinds = {file.kind for file in there}
    if ".delta" in kinds or ".snapshot" in kinds:
        return ".delta"
    return ".zip" if kinds == {".zip"} else ".changelog"


def ids_of(place: StorePlace, stores: Sequence[str], commits: Mapping[int, CommitEntry]) -> dict[int, str]:
    """Return the id of each version of a store, as far as commits are kept.

    ``stores``: the operator's, in its order.
    """
    number = stores.index(place.store) if place.store in stores else 0
    return {batch + 1: found for batch, commit in commits.items() if (found := _id(commit, place, number)) is not None}


def _id(commit: CommitEntry, place: StorePlace, number: int) -> str | None:
    partitions = commit.state_ids.get(place.operator, [])
    if place.partition >= len(partitions) or number >= len(partitions[place.partition]):
        return None
    return partitions[place.partition][number]


def list_shared_files(files: Files, name: str) -> Iterator[tuple[str, int]]:
    """Yield the files that a ``.zip`` of RocksDB leaves to others, with the bytes of each.

    Raises OSError, and ValueError if it is damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(files.read(name))) as archive:
            metadata = archive.read("metadata")
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError) as error:
        raise ValueError(f"{name} is no archive of RocksDB: {error}") from error
    folder = name.rpartition("/")[0]
    for shared, length in re.findall(rb'"dfsSstFileName":"([^"]+)","sizeBytes":(\d+)', metadata):
        yield f"{folder}/SSTs/{shared.decode()}", int(length)
