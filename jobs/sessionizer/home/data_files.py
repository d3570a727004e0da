"""Functions that write, read, list and delete files of the data root, and read the log of a Delta table there.

A ``DataPath`` has no method that opens anything, so each access is a function of this module. It raises
FileNotFoundError if a file is absent, StoreUnreachable if its store does not answer, and OSError if anything else is
wrong. So a store that is away is never taken for one without the file.

A published file is closed under a hidden name and gets its real name in one step: readers see a whole file or none.
"""

import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, cast

from sessionizer.errors import (
    ControlUnreachable,
    DamagedFile,
    DiskFull,
    InvalidSpec,
    SessionizerError,
    StoreUnreachable,
    UnwritablePath,
)
from sessionizer.home.control_store import Store, names_below, require_listener, translate_to_os_error
from sessionizer.home.json_record import JsonObject, parse_json
from sessionizer.home.local_files import (
    TEMPORARY_SUFFIX,
    close_to_others,
    first_line,
    is_away,
    open_regular,
    unwritable,
)
from sessionizer.home.record_file import Reading, create_json, failed_reading, format_json, parse_object, write_json
from sessionizer.home.roots import (
    ALLOWED_CONTROL,
    ALLOWED_DATA,
    CONTROL_VARIABLE,
    DATA_VARIABLE,
    ON_HADOOP,
    ControlPath,
    DataPath,
    store_path,
    uri_of,
)

ANSWERS_WITHIN_S: Final = 10.0
_OF_THE_FILE: Final = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
_NUMBER: Final = re.compile(r"\(os error (\d+)\)")
"""Pattern of the system's error number in hdfs-native's messages."""


@contextmanager
def reaching(path: DataPath) -> Iterator[None]:
    """Let the block, which reads or writes ``path``, raise StoreUnreachable or OSError in place of a client's errors.

    If the path names the host and port of a name node, connect first: HDFS's client tries for minutes. Raises
    ImportError and ValueError as they come: no installed package reads such a URI.
    """
    if isinstance(path, Path):
        yield
        return
    try:
        require_listener(store_path(path), ANSWERS_WITHIN_S)
        yield
    except (ImportError, ValueError, SessionizerError):
        raise
    except Exception as error:
        refusal = translate_to_os_error(error)
        if is_store_away(refusal):
            detail = refusal.strerror or first_line(refusal)
            raise StoreUnreachable(uri_of(path), "the data", detail) from error
        if refusal is error:
            raise
        raise refusal from error


def is_store_away(error: OSError) -> bool:
    """Whether the error of a store's client may pass by itself. Some are timeouts without a number."""
    if isinstance(error, _OF_THE_FILE):
        return False
    number = _NUMBER.search(str(error))
    if number is not None:
        return is_away(OSError(int(number[1]), ""))
    return error.errno is None or is_away(error)


def list_stored_sizes(folder: DataPath) -> Iterator[tuple[str, int]]:
    """Yield each file below a ``folder`` of a store, hidden ones too: its relative name, and its bytes."""
    there = store_path(folder)
    root, is_on_hadoop = there.path.rstrip("/"), there.protocol in ON_HADOOP
    try:
        with reaching(folder):
            found = dict(_walk(there.fs, root)) if is_on_hadoop else there.fs.find(there.path, detail=True)
    except FileNotFoundError:
        if data_exists(folder):
            raise
        return
    for path, about in found.items():
        if not path.endswith("/"):  # what marks a folder in an object store
            yield path[path.index(root) + len(root) + 1 :], int(about["size"])


def _walk(system: Any, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401  as fsspec has it
    """Yield each file below ``folder``. fsspec's own ``find`` omits a folder that it cannot list."""
    for about in system.ls(folder, detail=True):
        if about["type"] == "directory":
            yield from _walk(system, about["name"])
        else:
            yield about["name"], about


def data_exists(path: DataPath) -> bool:
    """Whether there is such a file or folder. Raises StoreUnreachable, OSError."""
    return path.exists() if isinstance(path, Path) else _information(path) is not None


def is_folder(path: DataPath) -> bool:
    """Whether there is such a folder. Raises StoreUnreachable, OSError."""
    if isinstance(path, Path):
        return path.is_dir()
    about = _information(path)
    return about is not None and about["type"] == "directory"


def size_of(path: DataPath) -> int:
    """Return the bytes of a file. Raises StoreUnreachable, OSError."""
    if isinstance(path, Path):
        return path.stat().st_size
    about = _information(path)
    if about is None:
        raise FileNotFoundError(store_path(path).path)
    return int(about["size"])


def _information(path: DataPath) -> dict[str, Any] | None:
    there = store_path(path)
    try:
        with reaching(path):
            return cast("dict[str, Any]", there.fs.info(there.path))
    except FileNotFoundError:
        return None


@contextmanager
def open_data(path: DataPath, mode: str = "rb") -> Iterator[BinaryIO]:
    """Open a file (``rb`` or ``wb``) for the block, which only does that. Raises StoreUnreachable, OSError."""
    with reaching(path):
        regular = isinstance(path, Path) and mode == "rb"
        with open_regular(cast("Path", path)) if regular else cast("Path", path).open(mode) as opened:
            yield cast("BinaryIO", opened)


def read_data(path: DataPath) -> bytes:
    """Read a file. Raises StoreUnreachable, OSError."""
    with reaching(path):
        if isinstance(path, Path):
            with open_regular(path) as file:
                return file.read()
        return store_path(path).read_bytes()


def read_data_text(path: DataPath) -> str:
    """Read a text file. Raises StoreUnreachable, OSError, and DamagedFile if it is not UTF-8."""
    try:
        return read_data(path).decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(uri_of(path), f"it is no text ({error.reason} at byte {error.start})") from error


def write_data_text(path: DataPath, text: str) -> None:
    """Write a text file, whose folder must exist. Raises StoreUnreachable, OSError."""
    with reaching(path):
        cast("Path", path).write_bytes(text.encode())


def remove_data(path: DataPath) -> None:
    """Delete a file. Harmless if there is none. Raises StoreUnreachable, OSError."""
    with reaching(path):
        cast("Path", path).unlink(missing_ok=True)


def make_data_folder(folder: DataPath, *, exist_ok: bool = False) -> None:
    """Make a folder and its parents. Raises StoreUnreachable, OSError."""
    with reaching(folder):
        cast("Path", folder).mkdir(parents=True, exist_ok=exist_ok)


def make_private_data(folder: DataPath) -> None:
    """Make a folder and its parents, and close a local one to other users. Raises StoreUnreachable, OSError."""
    make_data_folder(folder, exist_ok=True)
    close_to_others(folder)


def make_writable(folder: DataPath, purpose: str) -> None:
    """Make ``folder`` and prove that it can be written. Raises ``translate_refusal``'s errors, InvalidSpec."""
    probe = folder / f".{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"
    try:
        make_data_folder(folder, exist_ok=True)
        # permission bits lie (root, read-only mounts, quotas), so a file is really created
        write_data_text(probe, "0")
        remove_data(probe)
    except (ImportError, ValueError) as error:  # fsspec lacks the package that reads it, or knows none
        raise InvalidSpec(DATA_VARIABLE, uri_of(folder), f"{ALLOWED_DATA} ({first_line(error)})") from error
    except StoreUnreachable as error:
        raise StoreUnreachable(uri_of(folder), purpose, error.detail) from error
    except OSError as error:
        raise translate_refusal(folder, purpose, error) from error


def make_writable_control(folders: Sequence[ControlPath]) -> None:
    """Make folders of records and prove that they can be written, in a store with both primitives.

    Raises UnwritablePath, DiskFull, ControlUnreachable, and InvalidSpec if no package reads such a URI, or the store
    creates a file that exists: two drivers would then have one lease.
    """
    for local in (each for each in folders if isinstance(each, Path)):
        make_writable(local, f"the stream's {local.name} directory")
        close_to_others(local)
    stores = [each for each in folders if not isinstance(each, Path)]
    if not stores:
        return
    folder = stores[0]
    probe = Store(folder / f".{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")
    try:
        for each in stores:
            Store(each).make_folder()
        # contents that are unique to a call, see ``Store.repeats_calls``
        created = probe.create(secrets.token_bytes(8)), probe.create(secrets.token_bytes(8))
        probe.replace(secrets.token_bytes(8), durable=True)
        probe.remove()
    except OSError as error:
        raise Store(folder).refuse(f"the stream's {folder.name} directory", error) from error
    except (ImportError, ValueError) as error:  # fsspec lacks the package that reads it
        raise InvalidSpec(CONTROL_VARIABLE, uri_of(folder), f"{ALLOWED_CONTROL} ({first_line(error)})") from error
    if created != (True, False):
        detail = "this store has created a file that exists: conditional puts are not to be had there"
        raise InvalidSpec(CONTROL_VARIABLE, uri_of(folder), f"{ALLOWED_CONTROL} ({detail})")


def translate_refusal(
    path: DataPath, purpose: str, error: OSError
) -> ControlUnreachable | StoreUnreachable | DiskFull | UnwritablePath:
    """Translate ``error`` from writing to ``path``, which may be a path or a URI, into one of our errors."""
    if not isinstance(path, Path) and is_store_away(error):
        return StoreUnreachable(uri_of(path), purpose, error.strerror or first_line(error))
    return unwritable(uri_of(path), purpose, error)


AT_A_TIME: Final = 4
"""Files that are copied or read at a time. A store answers late, and a digest is made outside Python's lock."""
DELTA_LOG: Final = "_delta_log"
COMMIT: Final = re.compile(r"(\d{20})\.json$")
_FIELDS: Final[Mapping[str, Mapping[str, type]]] = {"add": {"path": str}, "txn": {"appId": str, "version": int}}
_A_FILE: Final = "a file of the data root"
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
    """Make a folder that Spark lists. An object store has it only by a file, so a hidden one. Raises OSError."""
    make_data_folder(folder)
    if _is_in_object_store(folder):
        write_data_text(folder / ".folder", "0")


def publish_json(path: DataPath, value: Mapping[str, object]) -> None:
    """Write ``value`` to ``path``, complete before the name appears. At a URI an existing file stays: it says the same.

    Raises UnwritablePath, DiskFull, and StoreUnreachable or ControlUnreachable if the file system is away for now.
    """
    if isinstance(path, Path):
        write_json(path, value)
    else:
        create_data_json(path, value)


def create_data_json(path: DataPath, value: Mapping[str, object]) -> bool:
    """Create ``path`` unless it exists. Returns True for the one caller that did.

    Raises UnwritablePath, DiskFull, StoreUnreachable, ControlUnreachable.
    """
    if isinstance(path, Path):
        return create_json(path, value)
    try:
        return Store(store_path(path)).create(format_json(value))
    except OSError as error:
        raise translate_refusal(path, _A_FILE, error) from error


def examine_data_json(path: DataPath) -> Reading[JsonObject]:
    """Read ``path``, or say that it is absent or damaged. Raises StoreUnreachable, ControlUnreachable."""
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
            there = store_path(folder)
            return [folder / name for name in names_below(there.fs, there.path)]
    except (FileNotFoundError, NotADirectoryError):  # the second is what fsspec says of a folder that is not there
        return []


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


def commits_of(table: DataPath, named: re.Pattern[str] = COMMIT) -> dict[int, DataPath]:
    """Return the commits, or other files of versions, by version, the oldest first. Raises OSError."""
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
