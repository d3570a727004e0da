"""Files of a checkpoint, wherever they are: names, sizes, bytes, and the copy of a committed batch.

Hadoop writes ``.NAME.crc`` beside a local file: a CRC-32 of each 512 bytes. Spark writes each file of a batch once, and
its commit tells which of the state's files are its own. A Spark of the same line can resume from a copy, with one line
changed (docs/adr/0082, ``move_schema``). A source of files lists what it has read in ``sources/<place>``, a part for
each look.
"""

import io
import json
import struct
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from sessionizer.checkpoint.log_entries import (
    COMMITS,
    EVENTS,
    METADATA,
    NOT_READ,
    OFFSETS,
    OPERATOR,
    PUNCTUATIONS,
    SOURCES,
    STATE,
    list_begun_batches,
    list_numbers,
    offset_log,
    read_commit,
    read_planned_batch,
    source_entries,
    source_log,
)
from sessionizer.checkpoint.state_files import (
    CHECKSUM,
    DEFAULT,
    Chain,
    StorePlace,
    add_ids_since_snapshot,
    chain_of,
    ids_of,
    list_shared_files,
    version_files,
)
from sessionizer.errors import DamagedFile
from sessionizer.home.data_files import (
    copy_file,
    data_exists,
    list_entries,
    list_stored_sizes,
    make_data_folder,
    read_data,
    read_data_text,
    remove_data,
    several_at_a_time,
    write_data_text,
)
from sessionizer.home.roots import DataPath, uri_of

_Read = TypeVar("_Read")
_TRIES: Final = 5
_MAGIC: Final = b"crc\x00"
_HEADER: Final = len(_MAGIC) + 4


@dataclass(frozen=True, slots=True)
class Files:
    """Files of a checkpoint: the bytes of each by its name below the checkpoint, and ``read``, which raises OSError."""

    location: str
    sizes: Mapping[str, int]
    read: Callable[[str], bytes]

    def list_below(self, folder: str) -> Iterator[str]:
        """Yield the names of the files in a folder and its folders, relative to the checkpoint."""
        return (name for name in self.sizes if name.startswith(f"{folder}/"))

    def numbered(self, folder: str) -> dict[int, str]:
        """Return the files of a log of Spark's, by their numbers: ``7``, and ``9.compact`` if there is no ``9``."""
        parts = (name for name in self.list_below(folder) if "/" not in name[len(folder) + 1 :])
        found: dict[int, str] = {}
        for name in sorted(parts, reverse=True):
            number = name[len(folder) + 1 :].removesuffix(".compact")
            if number.isdecimal():
                found[int(number)] = name
        return dict(sorted(found.items()))


def read_consistently(checkpoint: DataPath, read: Callable[[Files], _Read]) -> _Read:
    """Return ``read`` of the current files, again if a query removes one meanwhile. Raises OSError."""
    for _ in range(_TRIES - 1):
        with suppress(FileNotFoundError):
            return read(files_of(checkpoint))
    return read(files_of(checkpoint))


def files_of(checkpoint: DataPath) -> Files:
    """List the files in the folder now, also hidden ones. Raises OSError."""
    sizes = _local_sizes(checkpoint) if isinstance(checkpoint, Path) else list_stored_sizes(checkpoint)
    return Files(uri_of(checkpoint), dict(sizes), lambda name: read_data(checkpoint / name))


def _local_sizes(checkpoint: Path) -> Iterator[tuple[str, int]]:
    for entry in checkpoint.rglob("*"):
        with suppress(FileNotFoundError):  # a running query removes files that it no longer needs
            if entry.is_file():
                yield entry.relative_to(checkpoint).as_posix(), entry.stat().st_size


def hadoop_file(name: str) -> str:
    """Return the name of Hadoop's checksums of a file."""
    folder, slash, own = name.rpartition("/")
    return f"{folder}{slash}.{own}.crc"


def hadoop_says(content: bytes, checksums: bytes) -> str | None:
    """Compare ``content`` with Hadoop's file beside it. None if it fits. Raises ValueError if that file is damaged."""
    return hadoop_says_of(io.BytesIO(content), len(content), checksums)


def hadoop_says_of(content: BinaryIO, size: int, checksums: bytes) -> str | None:
    """Compare ``content`` of ``size`` bytes piece by piece. Raises ValueError, OSError."""
    if checksums[: len(_MAGIC)] != _MAGIC or len(checksums) < _HEADER:
        raise ValueError("it is no file of checksums")
    (step,) = struct.unpack(">I", checksums[len(_MAGIC) : _HEADER])
    told = checksums[_HEADER:]
    if not step or len(told) != 4 * -(-size // step):
        return f"it has {size:,} bytes, which its checksums do not fit"
    for number in range(len(told) // 4):
        found = zlib.crc32(content.read(step))
        if found.to_bytes(4) != told[4 * number : 4 * number + 4]:
            return f"it was changed between byte {number * step:,} and {min(size, (number + 1) * step):,}"
    return None


def copy_batch(
    checkpoint: DataPath, batch_id: int, target: DataPath, *, events_are_files: bool, listed_until: int | None = None
) -> None:
    """Copy a batch's files, and lists until a later one. Raises FileNotFoundError if one is gone, ValueError."""
    files = files_of(checkpoint)
    # Spark also needs the batch before the last when it starts
    logs = [f"{log}/{batch}" for log in (OFFSETS, COMMITS) for batch in (batch_id - 1, batch_id) if batch >= 0]
    folders = [f"{STATE}/{OPERATOR}/{folder}" for folder in ("_metadata/v2", "_stateSchema/default")]
    descriptions = [name for folder in folders for name in files.list_below(folder) if "/." not in name]
    copy_files(checkpoint, [METADATA, *logs, *descriptions, *_state(checkpoint, files, batch_id)], target)
    copy_sources(checkpoint, batch_id if listed_until is None else listed_until, target, are_files=events_are_files)


def copy_sources(checkpoint: DataPath, until: int, target: DataPath, *, are_files: bool) -> None:
    """Copy the sources' notes about the batches up to ``until``. ``are_files``: events are read from files."""
    planned = read_planned_batch(checkpoint, until)
    for source in [PUNCTUATIONS, EVENTS] if are_files else [PUNCTUATIONS]:
        copy_list_of_files(checkpoint, source, planned.last_file_offset(source), target)
    if not are_files:
        noted = list_entries(source_log(checkpoint, EVENTS))
        copy_files(checkpoint, (f"{SOURCES}/{EVENTS}/{entry.name}" for entry in noted), target)


def copy_files(folder: DataPath, names: Iterable[str], target: DataPath) -> None:
    """Copy the files that have these names in ``folder`` into ``target``, several at a time. Raises OSError."""
    wanted = list(names)
    for parent in {(target / name).parent for name in wanted}:
        make_data_folder(parent, exist_ok=True)
    for _ in several_at_a_time(lambda name: copy_file(folder / name, target / name), wanted):
        pass


def chains_of_batch(checkpoint: DataPath, files: Files, batch_id: int) -> Iterator[Chain]:
    """Yield each partition's files after a batch. Commits, and the newest change, tell the committed tries."""
    before = [batch for batch in files.numbered(COMMITS) if batch < batch_id]
    commits = {batch: read_commit(checkpoint, batch) for batch in (*before, batch_id)}
    stores = version_files(files)
    for partition in range(len(commits[batch_id].state_ids[OPERATOR])):
        place = StorePlace(OPERATOR, partition, DEFAULT, f"{STATE}/{OPERATOR}/{partition}")
        ids = add_ids_since_snapshot(files, place, batch_id + 1, ids_of(place, [DEFAULT], commits))
        yield chain_of(place, [file for file in stores.get(place, ()) if file.version in ids], batch_id + 1, ids)


def _state(checkpoint: DataPath, files: Files, batch_id: int) -> Iterator[str]:
    for chain in chains_of_batch(checkpoint, files, batch_id):
        if chain.lacking:
            raise FileNotFoundError(checkpoint / chain.lacking[0])
        shared = [each for name in chain.names if name.endswith(".zip") for each, _ in list_shared_files(files, name)]
        for name in (*chain.names, *shared):
            yield name
            if f"{name}{CHECKSUM}" in files.sizes:
                yield f"{name}{CHECKSUM}"


COMPACT_INTERVAL: Final = "spark.sql.streaming.fileSource.log.compactInterval"
"""Spark's setting for ``PARTS``. Spark uses it for a list without such a part, as of a short copy."""
PARTS: Final = 10
"""Each part with a number of this step in a list of files repeats the entries of all parts before it."""
_OF_NO_BATCH: Final = 2**62
"""The number under which a file is listed that counts as read, and that no batch reads. Spark takes none below 0."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a source of files counts as read: its URI and when it was changed last (epoch ms)."""

    uri: str
    changed_at: int


def read_seen_files(checkpoint: DataPath, batch_id: int) -> list[SeenFile]:
    """Return every file of the events' source up to ``batch_id``, read or gone by now. Raises OSError, ValueError."""
    until = read_planned_batch(checkpoint, batch_id).last_file_offset(EVENTS)
    entries = _entries(checkpoint, EVENTS, -1, until, {_OF_NO_BATCH})
    return [SeenFile(str(entry["path"]), int(entry["timestamp"])) for entry in entries]


def read_files_since(checkpoint: DataPath, after: int) -> tuple[list[SeenFile], int]:
    """Return the files that a source listed after an offset, and its newest offset. Raises OSError."""
    until = read_last_offset(checkpoint, EVENTS)
    entries = _entries(checkpoint, EVENTS, after, until, {_OF_NO_BATCH}) if until > after else []
    return [SeenFile(str(entry["path"]), int(entry["timestamp"])) for entry in entries], until


def files_of_batch(checkpoint: DataPath, batch_id: int, source: str = EVENTS) -> list[str]:
    """Return the URIs of ``source``'s files in a planned batch. Raises OSError, ValueError."""
    after = read_planned_batch(checkpoint, batch_id - 1).last_file_offset(source) if batch_id else -1
    return files_between(checkpoint, source, after, read_planned_batch(checkpoint, batch_id).last_file_offset(source))


def list_files_until(checkpoint: DataPath, batch_id: int, source: str) -> list[str]:
    """Return the URIs of ``source``'s files in all batches up to ``batch_id``. Raises OSError, ValueError."""
    return files_between(checkpoint, source, -1, read_planned_batch(checkpoint, batch_id).last_file_offset(source))


def files_between(checkpoint: DataPath, source: str, after: int, until: int) -> list[str]:
    """Return the URIs that ``source`` listed after one of its offsets and up to another. Raises OSError."""
    return [str(entry["path"]) for entry in _entries(checkpoint, source, after, until)]


def read_last_offset(checkpoint: DataPath, source: str) -> int:
    """Return the last offset in the list of a source of files, -1 for none. Perhaps no batch has read it yet."""
    return max(list_numbers(source_log(checkpoint, source)), default=-1)


def copy_list_of_files(checkpoint: DataPath, source: str, until: int, target: DataPath) -> None:
    """Write the list of ``source``'s files up to the offset ``until`` into the copy. Raises OSError."""
    if until < 0:
        return
    folder = source_log(target, source)
    make_data_folder(folder)
    entries = _entries(checkpoint, source, -1, until, {_OF_NO_BATCH})
    whole = until - (until + 1) % PARTS  # the last part that holds those before it, too
    first = max(whole, 0)
    for offset in range(first, until + 1):
        name, after = (f"{offset}.compact", -1) if offset == whole else (str(offset), offset - 1)
        numbers = {*range(after + 1, offset + 1), *([_OF_NO_BATCH] if offset == first else [])}
        told = [json.dumps(entry, separators=(",", ":")) for entry in entries if entry["batchId"] in numbers]
        write_data_text(folder / name, "\n".join(["v1", *told]))


def write_start_position(checkpoint: DataPath, offset: Any | None, seen: Sequence[SeenFile]) -> None:  # noqa: ANN401  JSON
    """Have the events be read from ``offset`` on, or after the files ``seen``, if batch 0 of a checkpoint read none.

    Only before any driver has run, because nothing of it is atomic. Raises ValueError if another batch was begun,
    OSError.
    """
    file = offset_log(checkpoint) / "0"
    version, _, events, *others = read_data_text(file).splitlines()
    if list_begun_batches(checkpoint) != {0} or version != "v1" or events != NOT_READ:
        raise ValueError(f"{uri_of(checkpoint)} is not that of a lineage that has only begun")
    if seen:
        # Spark reads the files with the entry's own number, and skips all that are listed
        entries = [{"path": each.uri, "timestamp": each.changed_at, "batchId": _OF_NO_BATCH} for each in seen]
        log, offset = source_log(checkpoint, EVENTS), {"logOffset": 0}
        make_data_folder(log, exist_ok=True)
        write_data_text(log / "0", "\n".join(["v1", *map(json.dumps, entries)]))
        remove_data(log / ".0.crc")
    if offset is not None:
        _write_ends(file, [json.dumps(offset), *others])


def begin_where(checkpoint: DataPath, batch_id: int, other: DataPath) -> None:
    """Have the batch after ``batch_id`` begin at the ends in ``other``, before any driver: it is not atomic."""
    _, _, *ends = read_data_text(other).splitlines()
    _write_ends(offset_log(checkpoint) / str(batch_id), ends)


def _write_ends(file: DataPath, ends: Sequence[str]) -> None:
    version, about, *_ = read_data_text(file).splitlines()
    write_data_text(file, "\n".join([version, about, *ends]))
    remove_data(file.parent / f".{file.name}.crc")


def _entries(
    checkpoint: DataPath, source: str, after: int, until: int, others: Container[int] = ()
) -> list[dict[str, Any]]:
    """Return ``source``'s entries between two offsets, and those of the numbers ``others``. Raises OSError."""
    log = source_log(checkpoint, source)
    wanted, found = set(range(after + 1, until + 1)), dict[str, dict[str, Any]]()
    for offset in sorted(list_numbers(log)):
        if offset <= after or not wanted:
            continue
        # every tenth part holds those before it, too, which are removed some time later
        part, is_whole = log / str(offset), False
        if not data_exists(part):
            part, is_whole = log / f"{offset}.compact", True
        try:
            entries = source_entries(read_data_text(part))
        except ValueError as error:
            raise DamagedFile(uri_of(part), str(error)) from error
        of_these = (entry for entry in entries if after < entry["batchId"] <= until or entry["batchId"] in others)
        found |= {str(entry["path"]): entry for entry in of_these}
        wanted -= set(range(offset + 1)) if is_whole else {offset}
    if wanted:
        raise FileNotFoundError(log / str(min(wanted)))
    return sorted(found.values(), key=lambda entry: int(entry["batchId"]))
