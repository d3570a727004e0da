"""How files of the data root are written, read, listed and removed, wherever it is.

What has been closed under a hidden name gets its real name in one step: readers see a whole file or none. On HDFS a
rename is one step of the NameNode and refuses a name that exists; in an object store the copy behind it is one put.
"""

from __future__ import annotations

import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from sessionizer.home.data_reach import refused
from sessionizer.home.json_file import JsonReading, decoded, encoded, examine_json, unread, write_json
from sessionizer.home.names import TEMPORARY_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from upath import UPath

    from sessionizer.home.data_root import DataPath

AT_A_TIME: Final = 4
"""Files that are copied or read whole at a time: a store is waited for, and a digest is made outside Python's lock."""
_Of = TypeVar("_Of")
_Made = TypeVar("_Made")


def several_at_a_time(work: Callable[[_Of], _Made], files: Iterable[_Of]) -> Iterator[_Made]:
    """What ``work`` makes of each of the ``files``, in their order. Raises what it raises of the first that fails."""
    with ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="files") as threads:
        yield from threads.map(work, files)


def copy_file(source: DataPath, target: DataPath) -> None:
    """Have the bytes of ``source`` at ``target``, whose folder is there. Raises OSError."""
    if isinstance(source, Path) and isinstance(target, Path):
        shutil.copyfile(source, target)  # the kernel copies
        return
    with source.open("rb") as opened, target.open("wb") as copy:
        shutil.copyfileobj(opened, copy)


def publish_json(path: DataPath, value: Mapping[str, object]) -> None:
    """Have ``value`` at ``path``, complete before the name appears; raises as ``refused``.

    Not on this machine a name that exists already stays as it is: the same name means the same content.
    """
    if isinstance(path, Path):
        write_json(path, value)
        return
    try:
        _put(path, encoded(value))
    except OSError as error:
        raise refused(path, "a file of the data root", error) from error


def _put(path: UPath, content: bytes) -> None:
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")
    try:
        hidden.write_bytes(content)
        with suppress(FileExistsError):
            hidden.rename(path)
    finally:
        with suppress(OSError):
            hidden.unlink(missing_ok=True)


def examine_data_json(path: DataPath) -> JsonReading:
    """What ``path`` holds, telling an absent file from a damaged or unreadable one. Never raises."""
    if isinstance(path, Path):
        return examine_json(path)
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return JsonReading()
    except OSError as error:
        return unread(path, error)
    return decoded(path, content)


def names_in(folder: DataPath) -> list[str]:
    """The names in ``folder``, hidden ones among them; none where there is no such folder. Raises OSError."""
    return [entry.name for entry in _all_in(folder)]


def entries_in(folder: DataPath) -> list[DataPath]:
    """What is in ``folder`` but for the hidden, in the order of names; nothing where there is none. Raises OSError."""
    return sorted((entry for entry in _all_in(folder) if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _all_in(folder: DataPath) -> list[DataPath]:
    try:
        return list(cast("Iterator[DataPath]", folder.iterdir()))
    except (FileNotFoundError, NotADirectoryError):  # the second is what fsspec says of a folder that is not there
        return []


def files_below(folder: DataPath) -> Iterator[DataPath]:
    """Every file in ``folder`` and its folders but the hidden ones, in the order of their names. Raises OSError."""
    for entry in entries_in(folder):
        if entry.is_dir():
            yield from files_below(entry)
        else:
            yield entry


def relative_name(path: DataPath, folder: DataPath) -> str:
    """``path`` as seen from ``folder``, with slashes."""
    return path.as_posix()[len(folder.as_posix().rstrip("/")) + 1 :]


def rename_folder(folder: DataPath, target: DataPath) -> None:
    """Have ``folder`` be at ``target``, where nothing is; in an object store file by file. Raises OSError."""
    cast("Path", folder).rename(cast("Path", target))


def remove_tree(folder: DataPath) -> None:
    """Remove ``folder`` with all that is in it; harmless when it is gone. Raises OSError."""
    try:
        if isinstance(folder, Path):
            shutil.rmtree(folder)
        else:
            folder.fs.rm(folder.path, recursive=True)
    except FileNotFoundError:
        if folder.exists():
            raise
