"""A committed batch of a checkpoint, copied as files. A Spark of the same line can resume from the copy elsewhere.

Beside ``checkpoint.py`` the only place that knows Spark's files: those of the state. ``<version>_<id>.zip`` is a
snapshot after batch ``version - 1``, ``.changelog`` what that batch changed, ``SSTs`` hold what snapshots share. Which
id belongs to the batch is in its commit. All of them are written once. A copy needs one line changed (docs/adr/0082):
``_metadata/v2`` names the file of the state's schema by its absolute path.
"""

from __future__ import annotations

import json
import re
import zipfile
from typing import TYPE_CHECKING, Final

from sessionizer.home.data_files import copy_file, entries_in, several_at_a_time
from sessionizer.home.lineage_home import commit_log, offset_log, source_log
from sessionizer.lineage.checkpoint import EVENTS, PUNCTUATIONS, copy_list_of_files, planned_batch, state_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sessionizer.home.data_root import DataPath

_OPERATOR: Final = "0"
_EVENTS: Final = "0"
_SST: Final = re.compile(rb"\d+-[0-9a-f-]{36}\.sst")
_SCHEMA: Final = "/_stateSchema/"


def copy_batch(
    checkpoint: DataPath, batch_id: int, target: DataPath, *, events_are_files: bool, listed_until: int | None = None
) -> None:
    """Copy the files of the committed ``batch_id`` to ``target``, a new folder.

    ``listed_until``: a later batch up to which the lists of files reach. Raises FileNotFoundError if one of its files
    is gone by now, and ValueError if Spark's files have an unknown format.
    """
    names = [*_logs(checkpoint, batch_id), *_state(checkpoint, batch_id)]
    if not events_are_files:
        names += _names_in(source_log(checkpoint, _EVENTS), f"sources/{_EVENTS}")
    copy_files(checkpoint, names, target)
    planned = planned_batch(checkpoint, batch_id if listed_until is None else listed_until)
    lists = [PUNCTUATIONS, EVENTS] if events_are_files else [PUNCTUATIONS]
    for name in lists:
        copy_list_of_files(checkpoint, name, planned.last_file_offset(name), target)


def copy_files(folder: DataPath, names: Iterable[str], target: DataPath) -> None:
    """Copy the files that have these names in ``folder`` into ``target``, several at a time. Raises OSError."""
    wanted = list(names)
    for parent in {(target / name).parent for name in wanted}:
        parent.mkdir(parents=True, exist_ok=True)
    for _ in several_at_a_time(lambda name: copy_file(folder / name, target / name), wanted):
        pass


def move_schema(checkpoint: DataPath, uri: str) -> None:
    """Have a copy, which Spark finds at ``uri``, name the schema of its state there. Raises ValueError."""
    files: list[DataPath] = [*(checkpoint / "state" / _OPERATOR / "_metadata" / "v2").iterdir()]
    for file in files:
        if file.name.startswith("."):
            file.unlink()
            continue
        version, told = file.read_text(encoding="utf-8").splitlines()
        metadata = json.loads(told)
        for store in metadata["stateStoreInfo"]:
            store["stateSchemaFilePaths"] = [_moved(path, uri) for path in store["stateSchemaFilePaths"]]
        if version != "v2" or uri not in (text := json.dumps(metadata, separators=(",", ":"))):
            message = f"{file} is of version {version!r} and names no schema: this release knows nothing of that"
            raise ValueError(message)
        file.write_text(f"{version}\n{text}", encoding="utf-8")


def _moved(path: str, uri: str) -> str:
    return f"{uri}/state/{_OPERATOR}{_SCHEMA}{path.rpartition(_SCHEMA)[2]}"


def _logs(checkpoint: DataPath, batch_id: int) -> Iterator[str]:
    """Yield the names below the checkpoint. Spark also needs the batch before the last when it starts."""
    yield "metadata"
    for log in (offset_log(checkpoint), commit_log(checkpoint)):
        yield from (f"{log.name}/{batch}" for batch in (batch_id - 1, batch_id) if batch >= 0)


def _state(checkpoint: DataPath, batch_id: int) -> Iterator[str]:
    state, name = checkpoint / "state" / _OPERATOR, f"state/{_OPERATOR}"
    for folder in ("_metadata/v2", "_stateSchema/default"):
        yield from _names_in(state / folder, f"{name}/{folder}")
    ids = {version: state_ids(checkpoint, version - 1) for version in {*_versions(checkpoint, batch_id), batch_id + 1}}
    for partition in range(len(ids[batch_id + 1])):
        of_partition = {version: found[partition] for version, found in ids.items()}
        yield from (
            f"{name}/{partition}/{file}" for file in _list_partition_files(state / str(partition), of_partition)
        )


def _names_in(folder: DataPath, name: str) -> list[str]:
    return [f"{name}/{file.name}" for file in entries_in(folder)]


def _versions(checkpoint: DataPath, batch_id: int) -> list[int]:
    """Return the state versions that can be identified. Spark numbers a version by the batch that comes next."""
    commits = {int(file.name) for file in entries_in(commit_log(checkpoint)) if file.name.isdecimal()}
    return sorted(batch + 1 for batch in commits if batch <= batch_id)


def _list_partition_files(folder: DataPath, ids: Mapping[int, str]) -> Iterator[str]:
    """Yield the names of the newest snapshot and of the changes since. Raises FileNotFoundError if a change is gone."""
    there = {file.name for file in entries_in(folder)}
    newest = max(ids)
    base = max((version for version, found in ids.items() if f"{version}_{found}.zip" in there), default=0)
    wanted = [f"{version}_{ids[version]}.changelog" for version in range(base + 1, newest + 1) if version in ids]
    if len(wanted) != newest - base:
        raise FileNotFoundError(folder / f"{base + 1}.changelog")
    if base:
        wanted.append(snapshot := f"{base}_{ids[base]}.zip")
        wanted += [f"SSTs/{name}" for name in _shared_files(folder / snapshot)]
    for name in wanted:
        yield name
        if f"{name}.crc" in there:
            yield f"{name}.crc"


def _shared_files(snapshot: DataPath) -> list[str]:
    with snapshot.open("rb") as opened, zipfile.ZipFile(opened) as archive:
        return sorted({name.decode() for name in _SST.findall(archive.read("metadata"))})
