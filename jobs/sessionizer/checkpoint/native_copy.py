"""A committed batch of a checkpoint, copied as files. A Spark of the same line can resume from the copy elsewhere.

All of them are written once. Which of the state's files belong to the batch is in its commit. A copy needs one line
changed (docs/adr/0082): ``move_schema`` changes the path of the state's schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.checkpoint.file_lists import copy_list_of_files
from sessionizer.checkpoint.files import files_of
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
from sessionizer.home.data_files import copy_file, list_entries, make_data_folder, several_at_a_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessionizer.checkpoint.files import Files
    from sessionizer.home.roots import DataPath


def copy_batch(
    checkpoint: DataPath, batch_id: int, target: DataPath, *, events_are_files: bool, listed_until: int | None = None
) -> None:
    """Copy the files of the committed ``batch_id`` to ``target``, a new folder.

    ``listed_until``: a later batch up to which the lists of files reach. Raises FileNotFoundError if one of its files
    is gone by now, and ValueError if Spark's files have an unknown format.
    """
    files = files_of(checkpoint)
    names = [METADATA, *_logs(batch_id), *_descriptions(files), *_state(checkpoint, files, batch_id)]
    copy_files(checkpoint, names, target)
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


def _logs(batch_id: int) -> Iterator[str]:
    """Yield the offsets and commits. Spark also needs the batch before the last when it starts."""
    for log in (OFFSETS, COMMITS):
        yield from (f"{log}/{batch}" for batch in (batch_id - 1, batch_id) if batch >= 0)


def _descriptions(files: Files) -> Iterator[str]:
    for folder in ("_metadata/v2", "_stateSchema/default"):
        yield from _visible(files, f"{STATE}/{OPERATOR}/{folder}")


def _visible(files: Files, folder: str) -> Iterator[str]:
    return (name for name in files.list_below(folder) if "/." not in name)


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
