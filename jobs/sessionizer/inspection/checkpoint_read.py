"""A checkpoint by its files: the state from which Spark would continue, and the files that cannot be understood.

``NAME.crc`` is Spark's own checksum of a state's file: a CRC-32C of the whole, and its length.
"""

import io
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import google_crc32c
from xxhash import xxh32_intdigest

from sessionizer.checkpoint.files import Files, hadoop_file, hadoop_says
from sessionizer.checkpoint.log_entries import (
    COMMITS,
    FILES,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    CommitEntry,
    OffsetEntry,
    commit_entry,
    offset_entry,
    query_id,
    source_entries,
    source_kind,
    text_of,
)
from sessionizer.checkpoint.rocksdb_table import SST_MAGIC, STORED, decompress_block
from sessionizer.checkpoint.state_files import (
    CHECKSUM,
    OPERATOR_FILE,
    SCHEMA_FILE,
    Chain,
    Operator,
    StorePlace,
    VersionFile,
    add_ids_since_snapshot,
    chain_of,
    ids_of,
    list_shared_files,
    operator_of,
    schema_version,
    version_files,
)
from sessionizer.home.json_record import parse_json

LZ4_MAGIC: Final = b"LZ4Block"
_BLOCK: Final = struct.Struct("<8sBIII")
_SEED: Final = 0x9747B28C
_CHECKSUM: Final = 0x0FFFFFFF


def find_problem(files: Files, name: str) -> str | None:
    """Return the problem of a file, None if it looks whole, whatever its checksum's own. Raises OSError."""
    content = files.read(name)
    if not content:
        return "it is empty"
    checked = False
    for checksum, says in ((f"{name}{CHECKSUM}", spark_says), (hadoop_file(name), hadoop_says)):
        if checksum not in files.sizes:
            continue
        try:
            wrong = says(content, files.read(checksum))
        except ValueError:
            continue
        if wrong is not None:
            return wrong
        checked = True
    if name.endswith(".zip"):
        return _wrong_zip(content)
    if name.endswith(".sst"):
        return None if content.endswith(SST_MAGIC) else "it does not end as a table of RocksDB does: it is cut"
    # with another codec only the checksum shows damage
    return wrong_with_blocks(content, checked=not checked) if content.startswith(LZ4_MAGIC) else None


def wrong_checksum(files: Files, name: str) -> str | None:
    """Return the problem of a checksum of Spark's itself. Only Hadoop's checksum shows a flipped bit."""
    content = files.read(name)
    try:
        spark_says(b"", content)
        hidden = hadoop_file(name)
        return hadoop_says(content, files.read(hidden)) if hidden in files.sizes else None
    except ValueError as error:
        return str(error)


def _wrong_zip(content: bytes) -> str | None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            bad = archive.testzip()
            archive.read("metadata")
    except (zipfile.BadZipFile, KeyError, OSError, EOFError, NotImplementedError, ValueError) as error:
        return f"it is no archive of RocksDB: cut, or changed ({error})"
    except Exception as error:  # noqa: BLE001  zlib.error and whatever else a changed archive makes of itself
        return f"it cannot be unpacked ({error})"
    return None if bad is None else f"{bad} in it was changed"


def spark_says(content: bytes, checksum: bytes) -> str | None:
    """Compare ``content`` with Spark's file beside it. None if it fits. Raises ValueError if that file is damaged."""
    try:
        told: dict[str, Any] = parse_json(checksum)
        algorithm, value, length = told["algorithm"], int(told["value"]), int(told["mainFileSize"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise ValueError("it is no checksum") from None
    if len(content) != length:
        return f"it has {len(content):,} bytes, and had {length:,}"
    if algorithm == "CRC32C" and google_crc32c.value(content) != value & 0xFFFFFFFF:
        return "it was changed: its checksum is another"
    return None


def wrong_with_blocks(content: bytes, *, checked: bool) -> str | None:
    """Return the problem of a stream of lz4-java's blocks, as of a state's files. ``checked``: by checksums, too.

    A block has its length, packed and unpacked, and the xxHash of the unpacked bytes. One of length zero is the last.
    """
    at = 0
    while at < len(content):
        header = content[at : at + _BLOCK.size]
        if len(header) < _BLOCK.size or not header.startswith(LZ4_MAGIC):
            return f"the block at byte {at:,} is none: it is cut, or changed"
        _, token, packed, plain, checksum = _BLOCK.unpack(header)
        at += _BLOCK.size
        if not packed and not plain:
            return None if at == len(content) else f"something follows its end at byte {at:,}"
        if at + packed > len(content):
            return f"the block at byte {at:,} is cut"
        block = content[at : at + packed]
        try:
            unpacked = block if token & 0xF0 == STORED else decompress_block(block, plain)
        except ValueError:
            unpacked = b""
        is_whole = plain and len(unpacked) == plain
        if not is_whole or (checked and xxh32_intdigest(unpacked, _SEED) & _CHECKSUM != checksum):
            return f"the block at byte {at:,} was changed"
        at += packed
    return "its end is missing: it is cut"


_LISTED: Final = re.compile(rf"{SOURCES}/[^/]+/\d+(?:\.compact)?")

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Contents of a checkpoint. ``wrong``: the problem of each damaged file.

    ``altered``: those that can be understood all the same, as only Hadoop's checksum tells, at which Spark does not
    look. ``listed``: by source, the parts of its list of files. ``shared``: for each ``.zip``, the files that it leaves
    to others, with their bytes. ``ids``: of each store's versions, as far as the commits and its newest change tell.
    """

    files: Files
    query_id: str | None
    offsets: Mapping[int, OffsetEntry]
    commits: Mapping[int, CommitEntry]
    operators: Mapping[int, Operator]
    stores: Mapping[StorePlace, Sequence[VersionFile]]
    listed: Mapping[str, Mapping[int, str]]
    shared: Mapping[str, Mapping[str, int]]
    wrong: Mapping[str, str]
    altered: AbstractSet[str]
    ids: Mapping[StorePlace, Mapping[int, str]]

    @property
    def begun(self) -> int | None:
        """The newest batch whose input is settled, readable or not."""
        return max(self.files.numbered(OFFSETS), default=None)

    @property
    def committed(self) -> int | None:
        """The newest batch that is over, readable or not."""
        return max(self.files.numbered(COMMITS), default=None)

    @property
    def newest(self) -> OffsetEntry | None:
        """The input of the newest batch with readable offsets."""
        return self.offsets[max(self.offsets)] if self.offsets else None

    @property
    def state_format(self) -> int | None:
        """Format of the state's files: 2 if commits have ids of the state, else 1. None if there is no state."""
        if not self.operators and not self.stores:
            return None
        return 2 if any(commit.state_ids for commit in self.commits.values()) else 1

    def chain(self, place: StorePlace, version: int) -> Chain:
        """Return the files of a version of a store, without damaged whole versions."""
        ids = self.ids.get(place, {})
        return chain_of(place, self.stores.get(place, ()), version, ids, frozenset(filter(self.is_spoilt, self.wrong)))

    def is_spoilt(self, name: str) -> bool:
        """Whether the file, or one of those that it leaves to others, is damaged or gone."""
        shared = self.shared.get(name, {})
        return name in self.wrong or any(each in self.wrong or each not in self.files.sizes for each in shared)


def read_checkpoint(files: Files, *, deep: bool = False) -> Checkpoint:
    """Read logs, descriptions, and the state of the next start, or ``deep`` all of it. Raises OSError."""
    reading = _Reading(files)
    offsets, commits = reading.log(OFFSETS, offset_entry), reading.log(COMMITS, commit_entry)
    operators, stores = dict(reading.operators()), version_files(files)
    checkpoint = Checkpoint(
        files=files,
        query_id=reading.one(METADATA, lambda content: query_id(text_of(content))) if METADATA in files.sizes else None,
        offsets=offsets,
        commits=commits,
        operators=operators,
        stores=stores,
        listed=reading.lists(offsets),
        shared=reading.shared(),
        wrong=reading.wrong,
        altered=reading.altered,
        ids={place: reading.ids(place, operators.get(place.operator), commits) for place in stores},
    )
    for name in filter(SCHEMA_FILE.fullmatch, files.sizes):
        reading.one(name, schema_version)
    reading.state(checkpoint, deep=deep)
    return checkpoint


def read_logs(files: Files) -> tuple[dict[int, OffsetEntry], dict[int, CommitEntry]]:
    """Read the input of each readable batch, and the batches that are over. Raises OSError."""
    reading = _Reading(files)
    return reading.log(OFFSETS, offset_entry), reading.log(COMMITS, commit_entry)


class _Reading:
    """Reader of files that keeps the problem of each damaged one."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.wrong: dict[str, str] = {}
        self.altered: set[str] = set()

    def one(self, name: str, parse: Callable[[bytes], _Read]) -> _Read | None:
        try:
            found = parse(self._files.read(name))
        except (ValueError, RecursionError) as error:  # Spark writes no JSON that nests a thousand times
            self.wrong[name] = str(error)
            return None
        if hadoop_file(name) in self._files.sizes and (wrong := find_problem(self._files, name)) is not None:
            self.wrong[name] = wrong
            self.altered.add(name)
        return found

    def log(self, folder: str, parse: Callable[[int, str], Any]) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for number, name in self._files.numbered(folder).items():
            entry = self.one(name, lambda content, number=number: parse(number, text_of(content)))  # type: ignore[misc]
            found |= {} if entry is None else {number: entry}
        return found

    def operators(self) -> Iterator[tuple[int, Operator]]:
        """Yield the operators that describe themselves, by the newest of their descriptions."""
        told = [(match, name) for name in self._files.sizes if (match := OPERATOR_FILE.fullmatch(name))]
        for match, name in sorted(told, key=lambda each: (int(each[0][1]), int(each[0][2] or 0))):
            found = self.one(name, operator_of)
            if found is not None:
                yield int(match[1]), found

    def lists(self, offsets: Mapping[int, OffsetEntry]) -> dict[str, dict[int, str]]:
        # only lists of files have a known format
        sources = {name.split("/")[1] for name in self._files.list_below(SOURCES) if _LISTED.fullmatch(name)}
        found = {source: self._files.numbered(f"{SOURCES}/{source}") for source in sorted(sources)}
        ends = offsets[max(offsets)].ends if offsets else {}
        for source, names in found.items():
            parse = _check_list if source_kind(ends.get(source)) == FILES else _require_content
            for name in names.values():
                self.one(name, parse)
        return found

    def ids(self, place: StorePlace, operator: Operator | None, commits: Mapping[int, CommitEntry]) -> dict[int, str]:
        newest = max(self._files.numbered(COMMITS), default=-1)
        stores = [store.name for store in operator.stores] if operator else []
        # Spark reads the newest commit as it is, and the newest change has other ids
        altered = {batch for batch in commits if batch != newest and f"{COMMITS}/{batch}" in self.altered}
        told = {batch: commit for batch, commit in commits.items() if batch not in altered}
        return add_ids_since_snapshot(self._files, place, newest + 1, ids_of(place, stores, told))

    def shared(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for name in self._files.sizes:
            if name.startswith(f"{STATE}/") and name.endswith(".zip") and "/." not in name:
                found[name] = {}
                with suppress(ValueError):  # found to be damaged when the next start would load it
                    found[name] = dict(list_shared_files(self._files, name))
        return found

    def state(self, checkpoint: Checkpoint, *, deep: bool) -> None:
        version = (-1 if checkpoint.committed is None else checkpoint.committed) + 1
        for place, there in checkpoint.stores.items():
            seen: set[str] = set()
            self._judge(checkpoint, [file.name for file in there] if deep else [])
            # an older version takes the place of a damaged whole one, and must be checked then
            while names := [name for name in checkpoint.chain(place, version).names if name not in seen]:
                self._judge(checkpoint, names)
                seen |= {*names}

    def _judge(self, checkpoint: Checkpoint, names: Sequence[str]) -> None:
        shared = [each for name in names for each in checkpoint.shared.get(name, ())]
        for name in [*names, *shared]:
            if name not in self._files.sizes or name in self.wrong:
                continue
            if (wrong := find_problem(self._files, name)) is not None:
                self.wrong[name] = wrong
            checksum = f"{name}.crc"
            if checksum in self._files.sizes and (wrong := wrong_checksum(self._files, checksum)) is not None:
                self.wrong[checksum] = wrong


def _check_list(content: bytes) -> int:
    return len(source_entries(text_of(content)))


def _require_content(content: bytes) -> int:
    if not content:
        raise ValueError("it is empty")
    return len(content)
