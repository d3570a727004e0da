"""Files of a state: the descriptions of its operators and stores, and the files that make up one version of a store.

The state after batch ``b`` is version ``b + 1``: the newest whole one (``.zip`` or ``.snapshot``) and the changes since
(``.changelog`` or ``.delta``). In format 2 the names also hold an id, which the batch's commit has.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sessionizer.checkpoint.log_entries import OPERATOR, STATE, CommitEntry, text_of
from sessionizer.home.data_files import list_all_entries, read_data_text, remove_data, write_data_text
from sessionizer.home.json_record import parse_json
from sessionizer.home.roots import DataPath

if TYPE_CHECKING:
    from sessionizer.checkpoint.files import Files


WHOLE: Final = (".zip", ".snapshot")
CHECKSUM: Final = ".crc"
_STORE: Final = re.compile(rf"{STATE}/(\d+)/(\d+)/(?:([^/]+)/)?([^/]+)")
_VERSION: Final = re.compile(r"(\d+)(?:_([^_.]+))?(\.zip|\.snapshot|\.changelog|\.delta)")
_OTHER_FOLDERS: Final = ("SSTs", "_metadata", "logs")
DEFAULT: Final = "default"
MOST_GONE: Final = 1_000
"""Most files of a kind that are reported as missing. A number in a damaged file, or in a name, may be of any size."""


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
    """Files of one version of a store: ``names``. ``lacking``: missing names, or placeholders for them, a part."""

    version: int
    names: tuple[str, ...]
    lacking: tuple[str, ...] = ()


_VERSIONS: Final = re.compile(rb"\x00\x02v\d(.{2})(?=\[)", re.DOTALL)
"""Head of a change with the ids of versions: its format, and the length of a JSON list."""


def chain_of(
    place: StorePlace,
    there: Sequence[VersionFile],
    version: int,
    ids: Mapping[int, str],
    spoilt: frozenset[str] = frozenset(),
) -> Chain:
    """Return the files of ``version``, by the ``ids`` of the commits, without ``spoilt`` whole versions."""
    # a version without a commit counts as it is
    ours = [
        file
        for file in there
        if file.version <= version and (file.id is None or file.id == ids.get(file.version, file.id))
    ]
    whole = [file for file in ours if file.is_whole and file.name not in spoilt]
    base = max(whole, default=None, key=lambda file: file.version)
    first = base.version + 1 if base else 1
    changes = {file.version: file for file in ours if not file.is_whole and file.version >= first}
    names = [file.name for _, file in sorted(changes.items())]
    kinds = {file.kind for file in there}
    suffix = ".delta" if {".delta", ".snapshot"} & kinds else ".zip" if kinds == {".zip"} else ".changelog"
    lacking = (
        f"{place.folder}/{number}{f'_{ids[number]}' if number in ids else ''}{suffix}"
        for number in range(first, version + 1)
        if number not in changes
    )
    return Chain(version, (*([base.name] if base else []), *names), tuple(islice(lacking, MOST_GONE)))


def ids_of(place: StorePlace, stores: Sequence[str], commits: Mapping[int, CommitEntry]) -> dict[int, str]:
    """Return the id of each version of a store, one of the operator's ``stores``, as far as commits are kept."""
    number = stores.index(place.store) if place.store in stores else 0
    found: dict[int, str] = {}
    for batch, commit in commits.items():
        partitions = commit.state_ids.get(place.operator, [])
        if place.partition < len(partitions) and number < len(partitions[place.partition]):
            found[batch + 1] = partitions[place.partition][number]
    return found


def add_ids_since_snapshot(files: Files, place: StorePlace, version: int, ids: Mapping[int, str]) -> dict[int, str]:
    """Add the ids that the changelog of ``version`` names: Spark keeps fewer commits. Raises OSError."""
    from sessionizer.checkpoint.rocksdb_table import decompress_lz4_blocks  # noqa: PLC0415  pyarrow, fast --help

    name = f"{place.folder}/{version}_{ids.get(version)}.changelog"
    if name not in files.sizes:
        return dict(ids)
    try:
        plain = decompress_lz4_blocks(files.read(name))
        found = _VERSIONS.match(plain)
        listed = parse_json(plain[found.end() : found.end() + int.from_bytes(found[1], "big")]) if found else []
        return {**{each["version"]: each["checkpointUniqueId"] for each in listed}, **ids}
    except (ValueError, KeyError, TypeError):  # damaged, or of another codec: commits alone tell
        return dict(ids)


def read_metadata(files: Files, name: str) -> bytes:
    """Read the description in a ``.zip``. Raises OSError, ValueError if damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(files.read(name))) as archive:
            return archive.read("metadata")
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, RuntimeError) as error:  # it may pass for encrypted
        raise ValueError(f"{name} is no archive of RocksDB: {error}") from error


def list_shared_files(files: Files, name: str) -> Iterator[tuple[str, int]]:
    """Yield the files, with bytes, that a ``.zip`` leaves to others. Raises OSError, ValueError if damaged."""
    folder = name.rpartition("/")[0]
    for shared, length in re.findall(rb'"dfsSstFileName":"([^"]+)","sizeBytes":(\d+)', read_metadata(files, name)):
        yield f"{folder}/SSTs/{shared.decode()}", int(length)


OPERATOR_FILE: Final = re.compile(rf"{STATE}/(\d+)/_metadata/(?:metadata|v2/(\d+))")
SCHEMA_FILE: Final = re.compile(rf"{STATE}/\d+/(?:_stateSchema/[^/]+/[^./][^/]*|\d+/(?:[^/]+/)?_metadata/schema)")
_SCHEMA: Final = "/_stateSchema/"
_IN_WORDS: Final = {
    "stateStoreSave": "aggregation",
    "sessionWindowStateStoreSaveExec": "session window",
    "dedupe": "deduplication",
    "dedupeWithinWatermark": "deduplication within the watermark",
    "symmetricHashJoin": "stream-stream join",
    "globalLimit": "limit",
    "transformWithStateExec": "transformWithState",
    "transformWithStateInPandasExec": "transformWithState in Python (pandas)",
    "transformWithStateInPySparkExec": "transformWithState in Python",
    "flatMapGroupsWithState": "flatMapGroupsWithState",
    "applyInPandasWithState": "applyInPandasWithState",
}
_OF_ONE_PARTITION: Final = "globalLimit"
"""Operator of a single partition. Its description counts the partitions of a shuffle that it does not have."""


@dataclass(frozen=True, slots=True)
class StateStore:
    """Store of an operator. ``schema_files``: places of its schema, relative to the operator's folder."""

    name: str
    partitions: int
    schema_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operator:
    """Stateful operator. ``name`` is Spark's. ``properties``: the rest of its description (variables, time mode)."""

    number: int
    name: str
    stores: tuple[StateStore, ...]
    properties: Mapping[str, Any]

    @property
    def common_name(self) -> str:
        """Common name of the operator."""
        return _IN_WORDS.get(self.name, self.name)

    @property
    def partitions(self) -> int:
        """Number of partitions of its state."""
        return 1 if self.name == _OF_ONE_PARTITION else max((store.partitions for store in self.stores), default=0)


_MOST_PARTITIONS: Final = 100_000
"""Most partitions that any state may have. A number in a damaged file may be of any size."""


def operator_of(content: bytes) -> Operator:
    """Parse the operator that ``_metadata/metadata`` or ``_metadata/v2/N`` describes. Raises ValueError."""
    version, _, told = text_of(content).partition("\n")
    if version not in {"v1", "v2"}:
        raise ValueError("it is empty" if not content else f"its version is {version[:20]!r}, and known are v1 and v2")
    try:
        value = parse_json(told)
        about = value["operatorInfo"]
        stores = tuple(_store(store) for store in value["stateStoreInfo"])
        properties = parse_json(value.get("operatorPropertiesJson") or "{}")
        return Operator(int(about["operatorId"]), str(about["operatorName"]), stores, properties)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise ValueError("it is no description of an operator: cut, or changed") from None


def _store(value: Mapping[str, Any]) -> StateStore:
    paths = (path.rpartition(_SCHEMA)[2] for path in value.get("stateSchemaFilePaths") or ())
    partitions = int(value["numPartitions"])
    if partitions > _MOST_PARTITIONS:
        raise ValueError(f"a state of {partitions} partitions")
    return StateStore(str(value["storeName"]), partitions, tuple(f"{_SCHEMA[1:]}{path}" for path in paths))


def move_schema(checkpoint: DataPath, uri: str) -> None:
    """Have a copy, which Spark finds at ``uri``, name the schema of its state there. Raises ValueError."""
    for file in list_all_entries(checkpoint / STATE / str(OPERATOR) / "_metadata" / "v2"):
        if file.name.startswith("."):
            remove_data(file)
            continue
        version, told = read_data_text(file).splitlines()
        metadata = parse_json(told)
        for store in metadata["stateStoreInfo"]:
            names = [path.rpartition(_SCHEMA)[2] for path in store["stateSchemaFilePaths"]]
            store["stateSchemaFilePaths"] = [f"{uri}/{STATE}/{OPERATOR}{_SCHEMA}{name}" for name in names]
        if version != "v2" or uri not in (text := json.dumps(metadata, separators=(",", ":"))):
            raise ValueError(
                f"{file} is of version {version!r} and names no schema: this release knows nothing of that"
            )
        write_data_text(file, f"{version}\n{text}")


_TEXT: Final = 2
_NUMBER: Final = 4


def schema_version(content: bytes) -> str:
    """Return the version of a file of schemas: texts in Java's form. Raises ValueError if it is damaged."""
    if not content:
        raise ValueError("it is empty")
    reader = _Reader(content)
    version = reader.text()
    if version in {"v1", "v2"}:
        for _ in range(2):
            reader.schema(reader.text() if version == "v1" else reader.long_text())
    elif version == "v3":
        for _ in range(reader.number(_NUMBER)):
            reader.text()
            for _ in range(2):  # a column family's keys and values, each after a number
                reader.number(_TEXT)
                reader.schema(reader.long_text())
            reader.schema(reader.long_text())
            if (user := reader.long_text()).strip():
                reader.schema(user)
    else:
        raise ValueError(f"its version is {version[:20]!r}, and known are v1 to v3")
    if reader.at != len(content):
        raise ValueError("something follows its end")
    return version


class _Reader:
    """Reader of one part after the other. It raises ValueError if the content is too short."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def number(self, size: int) -> int:
        return int.from_bytes(self._part(size))

    def text(self) -> str:
        try:
            return self._part(self.number(_TEXT)).decode()
        except UnicodeDecodeError:
            raise ValueError("a text in it was changed") from None

    def long_text(self) -> str:
        return "".join(self.text() for _ in range(self.number(_NUMBER)))

    @staticmethod
    def schema(text: str) -> None:
        try:
            parse_json(text)
        except ValueError:
            raise ValueError("a schema in it is no JSON: cut, or changed") from None

    def _part(self, size: int) -> bytes:
        if self.at + size > len(self._content):
            raise ValueError("it is cut")
        self.at += size
        return self._content[self.at - size : self.at]
