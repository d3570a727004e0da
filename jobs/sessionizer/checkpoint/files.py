"""Files of a checkpoint, wherever they are: names, sizes, bytes, and the copy of a committed batch.

The inspection judges only data read here. Beside a file on a local disk is one of Hadoop's, ``.NAME.crc``: a CRC-32 of
each 512 bytes. Spark writes each file of a batch once. Which of the state's files belong to the batch is in its commit.
A Spark of the same line can resume from a copy elsewhere. The copy needs one line changed (docs/adr/0082):
``move_schema`` changes the path of the state's schema.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from sessionizer.checkpoint.file_lists import copy_list_of_files
from sessionizer.checkpoint.log_entries import (
    COMMITS,
    EVENTS,
    METADATA,
    OFFSETS,
    OPERATOR,
    PUNCTUATIONS,
    SOURCES,
    STATE,
    read_commit,
    read_planned_batch,
    source_log,
)
from sessionizer.checkpoint.state_files import (
    CHECKSUM,
    DEFAULT,
    StorePlace,
    chain_of,
    ids_of,
    list_shared_files,
    version_files,
)
from sessionizer.home.data_files import (
    copy_file,
    list_entries,
    list_stored_sizes,
    make_data_folder,
    read_data,
    several_at_a_time,
)
from sessionizer.home.roots import DataPath, uri_of

_Read = TypeVar("_Read")
_TRIES: Final = 5
_MAGIC: Final = b"crc\x00"
_HEADER: Final = len(_MAGIC) + 4


@dataclass(frozen=True, slots=True)
class Files:
    """Files of a checkpoint. ``sizes``: bytes of each file, by its name below the checkpoint, with slashes.

    ``read``: returns the content of a file. It raises FileNotFoundError if the file is gone, and OSError.
    """

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
    """Return the result of ``read`` for the current files. Repeat it if a running query removes a file meanwhile.

    Raises FileNotFoundError if that happens again and again, and OSError.
    """
    for _ in range(_TRIES - 1):
        try:
            return read(files_of(checkpoint))
        except FileNotFoundError:
            continue
    return read(files_of(checkpoint))


def files_of(checkpoint: DataPath) -> Files:
    """List the files in the folder now, also hidden ones. Raises OSError."""
    return Files(uri_of(checkpoint), dict(_sizes(checkpoint)), lambda name: read_data(checkpoint / name))


def _sizes(checkpoint: DataPath) -> Iterator[tuple[str, int]]:
    if isinstance(checkpoint, Path):
        for entry in checkpoint.rglob("*"):
            try:
                if entry.is_file():
                    yield entry.relative_to(checkpoint).as_posix(), entry.stat().st_size
            except FileNotFoundError:  # a running query removes files that it no longer needs
                continue
        return
    yield from list_stored_sizes(checkpoint)


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
    """Copy the files of the committed ``batch_id`` to ``target``, a new folder.

    ``listed_until``: a later batch up to which the lists of files reach. Raises FileNotFoundError if one of its files
    is gone by now, and ValueError if Spark's files have an unknown format.
    """
    files = files_of(checkpoint)
    # Spark also needs the batch before the last when it starts
    logs = [f"{log}/{batch}" for log in (OFFSETS, COMMITS) for batch in (batch_id - 1, batch_id) if batch >= 0]
    folders = [f"{STATE}/{OPERATOR}/{folder}" for folder in ("_metadata/v2", "_stateSchema/default")]
    descriptions = [name for folder in folders for name in files.list_below(folder) if "/." not in name]
    copy_files(checkpoint, [METADATA, *logs, *descriptions, *_state(checkpoint, files, batch_id)], target)
    copy_sources(checkpoint, batch_id if listed_until is None else listed_until, target, are_files=events_are_files)


def copy_sources(checkpoint: DataPath, until: int, target: DataPath, *, are_files: bool) -> None:
    """Copy what the sources note about the batches up to ``until`` into the checkpoint at ``target``. Raises OSError.

    ``are_files``: whether the events are read from files.
    """
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


def _state(checkpoint: DataPath, files: Files, batch_id: int) -> Iterator[str]:
    """Yield the newest snapshot of each partition and the changes since. Raises FileNotFoundError if a change is gone.

    A version whose commit is gone counts as gone, because nothing tells which try of it was committed.
    """
    before = [batch for batch in files.numbered(COMMITS) if batch < batch_id]
    commits = {batch: read_commit(checkpoint, batch) for batch in (*before, batch_id)}
    stores = version_files(files)
    for partition in range(len(commits[batch_id].state_ids[OPERATOR])):
        place = StorePlace(OPERATOR, partition, DEFAULT, f"{STATE}/{OPERATOR}/{partition}")
        ids = ids_of(place, [DEFAULT], commits)
        chain = chain_of(place, [file for file in stores.get(place, ()) if file.version in ids], batch_id + 1, ids)
        if chain.lacking:
            raise FileNotFoundError(checkpoint / chain.lacking[0])
        shared = [each for name in chain.names if name.endswith(".zip") for each, _ in list_shared_files(files, name)]
        for name in (*chain.names, *shared):
            yield name
            if f"{name}{CHECKSUM}" in files.sizes:
                yield f"{name}{CHECKSUM}"
