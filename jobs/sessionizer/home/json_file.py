"""JSON files that are complete before their name appears: a reader sees the old one or the new one, never half."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sessionizer.home.control_store import create_whole, make_folder, read_whole, refused_by_store, replace_whole
from sessionizer.home.data_root import uri_of
from sessionizer.home.names import TEMPORARY_SUFFIX
from sessionizer.home.room import first_line, is_away, unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessionizer.errors import ControlUnreachable, DiskFull, UnwritablePath
    from sessionizer.home.control_root import ControlPath

JsonObject: TypeAlias = "dict[str, Any]"

ATTEMPT: Final = "attempt"
"""What tells the record of one attempt to create it from that of any other, where a store keeps it."""


@dataclass(frozen=True, slots=True)
class JsonReading:
    """What a file holds. Absent: both None. Damaged: ``damage`` says how, and there is no ``value``.

    ``away``: nobody can tell, as it cannot be reached just now.
    """

    value: JsonObject | None = None
    damage: str | None = None
    away: bool = False


def write_json(path: ControlPath, value: Mapping[str, object], *, durable: bool = True) -> None:
    """Replace ``path`` by ``value``; raises UnwritablePath or DiskFull, and leaves the old file as it was.

    ``durable`` makes it survive a power cut (two fsyncs). Only what is rewritten every few seconds goes without.
    """
    with _named_failure(path):
        if not isinstance(path, Path):
            replace_whole(path, _encoded(value), durable=durable)
            return
        with _complete_file(path, value, durable=durable) as temporary:
            temporary.replace(path)
            if durable:
                _sync_directory(path.parent)


def create_json(path: ControlPath, value: Mapping[str, object]) -> bool:
    """Create ``path`` with ``value`` unless it exists; True for the one caller that did. Raises as ``write_json``."""
    with _named_failure(path):
        if isinstance(path, Path):
            return _linked(path, value)
        return create_whole(path, _encoded({**value, ATTEMPT: secrets.token_hex(8)}))


def _linked(path: Path, value: Mapping[str, object]) -> bool:
    with _complete_file(path, value, durable=True) as temporary:
        # A link, unlike a rename, refuses an existing name; unlike open(O_EXCL), its target is already complete.
        try:
            os.link(temporary, path)
        except FileExistsError:
            # Over NFS the reply to a link that succeeded may get lost and the repeated call then collides with itself.
            if temporary.stat().st_nlink != 2:  # noqa: PLR2004 - our two names
                return False
        _sync_directory(path.parent)
        return True


def examine_json(path: ControlPath) -> JsonReading:
    """What ``path`` holds, telling an absent file from a damaged or unreadable one. Never raises."""
    try:
        value = json.loads(path.read_bytes() if isinstance(path, Path) else read_whole(path))
    except (FileNotFoundError, NotADirectoryError):
        return JsonReading()
    except OSError as error:
        # what a store says of a file that it does not give is nothing about what is in it
        away = is_away(error) or not isinstance(path, Path)
        return JsonReading(damage=f"{uri_of(path)}: {error.strerror or first_line(error)}", away=away)
    except (ValueError, RecursionError) as error:
        return JsonReading(damage=f"{uri_of(path)}: not JSON ({error})")
    if not isinstance(value, dict):
        return JsonReading(damage=f"{uri_of(path)}: holds {type(value).__name__}, not an object")
    return JsonReading(value=value)


def read_json(path: ControlPath) -> JsonObject | None:
    """The object in ``path``, or None if it is absent or damaged (``examine_json`` says which)."""
    return examine_json(path).value


@contextmanager
def _named_failure(path: ControlPath) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(path, "a control file", error) from error


def cannot_write(path: ControlPath, purpose: str, error: OSError) -> ControlUnreachable | DiskFull | UnwritablePath:
    """The error that ``error`` comes to for who has to write ``path`` of a control root."""
    if isinstance(path, Path):
        return unwritable(path, purpose, error)
    return refused_by_store(path, purpose, error)


def have_folder(folder: ControlPath, purpose: str) -> None:
    """Make a folder of a control root, where it is missing. Raises as ``cannot_write``."""
    try:
        make_folder(folder)
    except OSError as error:
        raise cannot_write(folder, purpose, error) from error


def _encoded(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, indent=1, allow_nan=False).encode()


@contextmanager
def _complete_file(path: Path, value: Mapping[str, object], *, durable: bool) -> Iterator[Path]:
    """A whole file under a hidden name beside ``path``, gone afterwards unless it was renamed."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            file.write(_encoded(value))
            file.flush()
            if durable:
                os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
