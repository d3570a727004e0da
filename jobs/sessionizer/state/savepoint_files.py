"""Files of savepoints, wherever they are: written whole, listed, removed with all that is in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sessionizer.home.atomic_file import JsonReading, examine_json
from sessionizer.home.data_files import publish_json
from sessionizer.home.data_root import folder_at, uri_of
from sessionizer.home.room import first_line, unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessionizer.home.data_root import DataPath


def write_data_json(path: DataPath, value: Mapping[str, object]) -> None:
    """Have ``value`` at ``path``, whose folder is made: as ``publish_json``. Raises UnwritablePath, DiskFull."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(location(path.parent), "a folder of the data root", error) from error
    publish_json(path, value)


def examine_data_json(path: DataPath) -> JsonReading:
    """What ``path`` holds, telling an absent file from a damaged or unreadable one. Never raises."""
    if isinstance(path, Path):
        return examine_json(path)
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return JsonReading()
    except OSError as error:
        return JsonReading(damage=f"{location(path)}: {error.strerror or first_line(error)}")
    except (ValueError, RecursionError) as error:
        return JsonReading(damage=f"{location(path)}: not JSON ({error})")
    if not isinstance(value, dict):
        return JsonReading(damage=f"{location(path)}: holds {type(value).__name__}, not an object")
    return JsonReading(value=value)


def entries_in(folder: DataPath) -> list[DataPath]:
    """What is in ``folder`` but for the hidden, in the order of names; nothing where there is none. Raises OSError."""
    try:
        found = list(cast("Iterator[DataPath]", folder.iterdir()))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)


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


def remove_tree(folder: DataPath) -> None:
    """Remove ``folder`` and all that is in it; harmless when it is gone. Raises OSError."""
    try:
        entries = list(cast("Iterator[DataPath]", folder.iterdir()))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            remove_tree(entry)
        else:
            entry.unlink(missing_ok=True)
    folder.rmdir()


def data_path(place: str) -> DataPath:
    """A folder that a person named: a path of this machine, made absolute, or a URI."""
    return folder_at(place, "--in")


def location(path: DataPath) -> str:
    """``path`` as Spark takes it: a plain path where it is one of this machine, else a URI."""
    return uri_of(path)


def spark_uri(path: DataPath) -> str:
    """``path`` as Spark itself writes it down: with a scheme."""
    return f"file:{path}" if isinstance(path, Path) else uri_of(path)
