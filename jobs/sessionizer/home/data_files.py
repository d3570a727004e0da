"""Functions that write, read, list and delete files of the data root, and read the log of a Delta table there.

A file is closed under a hidden name and gets its real name in one step: readers see a whole file or none. On HDFS a
rename is one step of the NameNode and refuses a name that exists. An object store does the same with one conditional
put.
"""

from __future__ import annotations

import re
import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from sessionizer.errors import DamagedFile
from sessionizer.home.data_access import (
    data_exists,
    is_folder,
    make_data_folder,
    open_data,
    reaching,
    read_data,
    write_data_text,
)
from sessionizer.home.data_reach import translate_refusal
from sessionizer.home.disk.disk_space import is_away
from sessionizer.home.disk.local_files import TEMPORARY_SUFFIX
from sessionizer.home.json_file import Reading, failed_reading, format_json, parse_object, write_json
from sessionizer.home.json_record import parse_json
from sessionizer.home.roots import ON_HADOOP, store_path, uri_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from upath import UPath

    from sessionizer.home.json_record import JsonObject
    from sessionizer.home.roots import DataPath

AT_A_TIME: Final = 4
"""Number of files that are copied or read at a time. Threads help because a store answers late, and a digest is made
outside Python's lock."""
DELTA_LOG: Final = "_delta_log"
_COMMIT: Final = re.compile(r"(\d{20})\.json$")
"""Pattern of a commit in the log of a Delta table. Delta's protocol fixes it: a file each, with an action a line."""

_FIELDS: Final[Mapping[str, Mapping[str, type]]] = {"add": {"path": str}, "txn": {"appId": str, "version": int}}
"""Types of the fields of actions that are read here."""
_A_FILE: Final = "a file of the data root"
_KEEPS_FOLDER: Final = ".folder"

_Of = TypeVar("_Of")
_Made = TypeVar("_Made")


def several_at_a_time(work: Callable[[_Of], _Made], files: Iterable[_Of]) -> Iterator[_Made]:
    """Yield the result of ``work`` for each of the ``files``, in their order. Raises the first error of ``work``."""
    with ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="files") as threads:
        yield from threads.map(work, files)


def copy_file(source: DataPath, target: DataPath) -> None:
    """Copy the bytes of ``source`` to ``target``, whose folder must exist. Raises OSError."""
    if isinstance(source, Path) and isinstance(target, Path):
        shutil.copyfile(source, target)  # the kernel copies
        return
    with open_data(source) as opened, open_data(target, "wb") as copy:
        shutil.copyfileobj(opened, copy)


def make_listed_folder(folder: DataPath) -> None:
    """Make a folder whose files Spark lists while there is none yet. Raises OSError.

    In an object store a folder exists only by its files, so there a hidden one keeps it. Spark skips hidden files.
    """
    make_data_folder(folder)
    if _is_in_object_store(folder):
        write_data_text(folder / _KEEPS_FOLDER, "0")


def publish_json(path: DataPath, value: Mapping[str, object]) -> None:
    """Write ``value`` to ``path``, complete before the name appears.

    Raises UnwritablePath, DiskFull, and StoreUnreachable or ControlUnreachable if the file system is away for now. At a
    URI an existing file stays as it is, because the same name means the same content.
    """
    if isinstance(path, Path):
        write_json(path, value)
        return
    content = format_json(value)
    try:
        with reaching(path):
            _put(store_path(path), content)
    except OSError as error:
        raise translate_refusal(path, _A_FILE, error) from error


def _put(path: UPath, content: bytes) -> None:
    if _is_in_object_store(path):
        with suppress(FileExistsError):
            path.fs.pipe_file(path.path, content, mode="create")
        return
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")
    try:
        hidden.write_bytes(content)
        with suppress(FileExistsError):
            hidden.rename(path)
    finally:
        with suppress(OSError):
            hidden.unlink(missing_ok=True)


def examine_data_json(path: DataPath) -> Reading[JsonObject]:
    """Read ``path``. The result tells an absent file from a damaged one, or one that may not be read.

    Raises StoreUnreachable or ControlUnreachable if the file system is away for now, because nothing is known then.
    """
    try:
        content = read_data(path)
    except (FileNotFoundError, NotADirectoryError):
        return Reading()
    except OSError as error:
        if is_away(error):
            raise translate_refusal(path, _A_FILE, error) from error
        return failed_reading(path, error)
    return parse_object(path, content)


def list_names(folder: DataPath) -> list[str]:
    """List the names in ``folder``, including hidden ones. Empty if there is no such folder. Raises OSError."""
    return [entry.name for entry in list_all_entries(folder)]


def list_entries(folder: DataPath) -> list[DataPath]:
    """List the entries of ``folder`` by name, without hidden ones. Empty if there is no folder. Raises OSError."""
    entries = (entry for entry in list_all_entries(folder) if not entry.name.startswith("."))
    return sorted(entries, key=lambda entry: entry.name)


def list_all_entries(folder: DataPath) -> list[DataPath]:
    """List the entries of ``folder``, including hidden ones. Empty if there is no folder. Raises OSError."""
    try:
        with reaching(folder):
            if not _is_in_object_store(folder):
                return list(cast("Iterator[DataPath]", cast("Path", folder).iterdir()))
            return _list_in_object_store(folder)
    except (FileNotFoundError, NotADirectoryError):  # the second is what fsspec says of a folder that is not there
        return []


def _list_in_object_store(folder: DataPath) -> list[DataPath]:
    there = store_path(folder)
    own = there.path.rstrip("/")
    listed = (str(name).rstrip("/") for name in there.fs.ls(there.path, detail=False))
    # Hadoop's connectors keep an empty object in the place of a folder, which is listed inside of it
    return [folder / name.rpartition("/")[2] for name in listed if name.lstrip("/") != own.lstrip("/")]


def _is_in_object_store(path: DataPath) -> bool:
    return not isinstance(path, Path) and store_path(path).protocol not in ON_HADOOP


def files_below(folder: DataPath) -> Iterator[DataPath]:
    """Yield every file in ``folder`` and its folders but the hidden ones, in the order of names. Raises OSError."""
    for entry in list_entries(folder):
        if is_folder(entry):
            yield from files_below(entry)
        else:
            yield entry


def relative_name(path: DataPath, folder: DataPath) -> str:
    """Return ``path`` relative to ``folder``, with slashes."""
    return path.as_posix()[len(folder.as_posix().rstrip("/")) + 1 :]


def rename_folder(folder: DataPath, target: DataPath) -> None:
    """Rename ``folder`` to ``target``, which must not exist. An object store does it file by file. Raises OSError.

    There, hidden files are left out.
    """
    with reaching(folder):
        if not _is_in_object_store(folder):
            cast("Path", folder).rename(cast("Path", target))
            return
        for file in files_below(folder):
            store_path(folder).fs.cp_file(store_path(file).path, store_path(target / relative_name(file, folder)).path)
    remove_tree(folder)


def remove_tree(folder: DataPath) -> None:
    """Delete ``folder`` with all its files. Harmless if it does not exist. Raises OSError."""
    try:
        with reaching(folder):
            if isinstance(folder, Path):
                shutil.rmtree(folder)
            else:
                store_path(folder).fs.rm(store_path(folder).path, recursive=True)
    except FileNotFoundError:
        if data_exists(folder):
            raise


def commits_of(table: DataPath, named: re.Pattern[str] = _COMMIT) -> dict[int, DataPath]:
    """Return the files of the commits that are kept, by version, the oldest first. Empty without a table.

    ``named``: other files of a version, such as checkpoints. Raises OSError.
    """
    found = ((named.match(entry.name), entry) for entry in list_entries(table / DELTA_LOG))
    return {int(match[1]): entry for match, entry in found if match is not None}


def newest_version(table: DataPath) -> int | None:
    """Return the newest version of the table, None if there is none. Raises OSError."""
    return max(commits_of(table), default=None)


def commit_at(table: DataPath, version: int) -> DataPath:
    """Return the file of a commit, which may be there or not."""
    return table / DELTA_LOG / f"{version:020d}.json"


def read_actions(commit: DataPath) -> list[dict[str, Any]]:
    """Read the actions of a commit. Raises OSError, and DamagedFile for one that was cut or changed."""
    try:
        actions = [parse_json(line) for line in read_data(commit).splitlines() if line.strip()]
    except ValueError as error:
        raise DamagedFile(uri_of(commit), f"not JSON ({error})") from error
    if not actions or not all(isinstance(each, dict) and all(map(_is_action, each.items())) for each in actions):
        raise DamagedFile(uri_of(commit), "it is no list of Delta's actions")
    return actions


def _is_action(named: tuple[str, Any]) -> bool:
    """Whether an action has the fields that are read here."""
    name, about = named
    types = _FIELDS.get(name, {})
    return isinstance(about, dict) and all(isinstance(about.get(field), types[field]) for field in types)


def list_added_files(actions: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the data files that the actions add."""
    return [action["add"] for action in actions if "add" in action]


def read_transactions(actions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the batch by lineage, because each commit of a stream names both (Delta's ``txn``)."""
    found = (action["txn"] for action in actions if "txn" in action)
    return {str(each["appId"]): int(each["version"]) for each in found}
