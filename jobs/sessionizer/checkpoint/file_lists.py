"""Lists of the files that a source of files has read: ``sources/<place>``, a part for each look at the folder."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sessionizer.checkpoint.log_entries import (
    EVENTS,
    NOT_READ,
    list_begun_batches,
    list_numbers,
    offset_log,
    read_planned_batch,
    source_entries,
    source_log,
)
from sessionizer.errors import DamagedFile
from sessionizer.home.data_files import data_exists, make_data_folder, read_data_text, remove_data, write_data_text
from sessionizer.home.roots import DataPath, uri_of

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
    """Return the files that a source of files listed after one of its offsets, and its newest offset.

    Raises OSError.
    """
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
    """Return the URIs of the files that ``source`` listed after one of its offsets and up to another.

    Raises OSError.
    """
    return [str(entry["path"]) for entry in _entries(checkpoint, source, after, until)]


def read_last_offset(checkpoint: DataPath, source: str) -> int:
    """Return the last offset in the list of a source of files, -1 for none. Perhaps no batch has read it yet."""
    return max(list_numbers(source_log(checkpoint, source)), default=-1)


def copy_list_of_files(checkpoint: DataPath, source: str, until: int, target: DataPath) -> None:
    """Write the list of ``source``'s files up to the offset ``until`` into the copy of the checkpoint at ``target``.

    Raises OSError.
    """
    if until < 0:
        return
    folder = source_log(target, source)
    make_data_folder(folder)
    entries = _entries(checkpoint, source, -1, until, {_OF_NO_BATCH})
    whole = until - (until + 1) % PARTS  # the last part that holds those before it, too
    first = max(whole, 0)
    for offset in range(first, until + 1):
        name, after = (f"{offset}.compact", -1) if offset == whole else (str(offset), offset - 1)
        held = [
            entry
            for entry in entries
            if after < entry["batchId"] <= offset or (offset == first and entry["batchId"] == _OF_NO_BATCH)
        ]
        told = [json.dumps(entry, separators=(",", ":")) for entry in held]
        write_data_text(folder / name, "\n".join(["v1", *told]))


def write_start_position(checkpoint: DataPath, offset: Any | None, seen: Sequence[SeenFile]) -> None:  # noqa: ANN401  JSON
    """Have the events be read from ``offset`` on, after batch 0 of a checkpoint in which that batch read none.

    A source of files has a list of its own instead, of the files that it has ``seen``. Only before any driver has run,
    because nothing of it is atomic. Raises ValueError if another batch was begun, and OSError.
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
    """Have the batch after ``batch_id`` begin where the offsets in the file ``other`` end. Raises OSError.

    Only before any driver has run, because it is not atomic.
    """
    _, _, *ends = read_data_text(other).splitlines()
    _write_ends(offset_log(checkpoint) / str(batch_id), ends)


def _write_ends(file: DataPath, ends: Sequence[str]) -> None:
    version, about, *_ = read_data_text(file).splitlines()
    write_data_text(file, "\n".join([version, about, *ends]))
    remove_data(file.parent / f".{file.name}.crc")


def _entries(
    checkpoint: DataPath, source: str, after: int, until: int, others: Container[int] = ()
) -> list[dict[str, Any]]:
    """Return ``source``'s entries of the files that it listed between two of its offsets, in that order.

    Raises OSError. ``others``: numbers outside of these that count as well.
    """
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
        found |= {
            str(entry["path"]): entry
            for entry in entries
            if after < entry["batchId"] <= until or entry["batchId"] in others
        }
        wanted -= set(range(offset + 1)) if is_whole else {offset}
    if wanted:
        raise FileNotFoundError(log / str(min(wanted)))
    return sorted(found.values(), key=lambda entry: int(entry["batchId"]))
