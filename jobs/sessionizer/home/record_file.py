"""JSON and records in files of a control root: complete before the name appears, and damage told from absence."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from sessionizer.errors import ControlUnreachable, DamagedFile, UnreadablePath
from sessionizer.home.control_store import Store
from sessionizer.home.json_record import JsonObject, add_stamp, parse_json, unknown_format
from sessionizer.home.local_files import first_line, unreadable
from sessionizer.home.names import check_identifier
from sessionizer.home.roots import ControlPath, DataPath, uri_of

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


Content = TypeVar("Content")
ATTEMPT: Final = "attempt"
"""Key that tells the record of one attempt to create it from any other attempt's, in a store."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[Content]):
    """The content of a file. Absent: both None. ``error``: why its content is unknown."""

    value: Content | None = None
    error: DamagedFile | UnreadablePath | ControlUnreachable | None = None

    @property
    def damage(self) -> str | None:
        """The error in words."""
        return None if self.error is None else str(self.error)

    def require(self) -> Content | None:
        """Return the content, None if the file is absent. Raises DamagedFile, UnreadablePath, ControlUnreachable."""
        if self.error is not None:
            raise self.error
        return self.value


def write_json(path: ControlPath, value: Mapping[str, object], *, durable: bool = True) -> None:
    """Replace ``path`` by ``value``. Raises UnwritablePath, DiskFull, ControlUnreachable, and leaves the old file.

    ``durable`` makes it survive a power cut (two fsyncs). Only files that are rewritten every few seconds are not.
    """
    content = format_json(value)
    with _named_failure(path):
        Store(path).replace(content, durable=durable)


def create_json(path: ControlPath, value: Mapping[str, object]) -> bool:
    """Create ``path`` unless it exists. Returns True for the one caller that did.

    Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    content = format_json({**value, ATTEMPT: secrets.token_hex(8)} if Store(path).repeats_calls else value)
    with _named_failure(path):
        return Store(path).create(content)


def examine_json(path: ControlPath) -> Reading[JsonObject]:
    """Read ``path``. The result tells an absent file from a damaged or unreadable one. Never raises."""
    found = _examine_bytes(path)
    return Reading(error=found.error) if found.value is None else parse_object(path, found.value)


def _examine_bytes(path: ControlPath) -> Reading[bytes]:
    try:
        return Reading(value=Store(path).read())
    except (FileNotFoundError, NotADirectoryError):
        return Reading()
    except OSError as error:
        return failed_reading(path, error, away=Store(path).is_away(error))
    except ValueError as error:  # a NUL in its name
        return Reading(error=DamagedFile(uri_of(path), str(error)))


def failed_reading(path: DataPath, error: OSError, *, away: bool = False) -> Reading[Any]:
    """Return the reading of a file that exists and cannot be read because of ``error``."""
    if isinstance(error, PermissionError):
        return Reading(error=unreadable(path, error))
    kind = ControlUnreachable if away else DamagedFile
    return Reading(error=kind(uri_of(path), error.strerror or first_line(error)))


def parse_object(path: DataPath, content: bytes) -> Reading[JsonObject]:
    """Parse the ``content`` of ``path`` into an object."""
    try:
        return Reading(value=_object_in(content))
    except ValueError as error:
        return Reading(error=DamagedFile(uri_of(path), str(error)))


def _object_in(content: bytes) -> JsonObject:
    try:
        value = parse_json(content)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"it holds {type(value).__name__}, not an object")  # noqa: TRY004  damage, as the others
    return value


def format_json(value: Mapping[str, object]) -> bytes:
    """Format ``value`` as indented JSON, for people to read. Raises ValueError for a float that is not finite."""
    return json.dumps(value, indent=1, allow_nan=False).encode()


def read_json(path: ControlPath) -> JsonObject | None:
    """Return the object in ``path``, None if it is absent or damaged. Raises UnreadablePath, ControlUnreachable."""
    found = examine_json(path)
    return None if isinstance(found.error, DamagedFile) else found.require()


@contextmanager
def _named_failure(path: ControlPath, purpose: str = "a control file") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Store(path).refuse(purpose, error) from error


def have_folder(folder: ControlPath, purpose: str) -> None:
    """Make a folder of a control root, if it is missing. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    with _named_failure(folder, purpose):
        Store(folder).make_folder()


class Storable(Protocol):
    """A value that a file keeps. A ``JsonRecord`` is one."""

    FORMAT: ClassVar[int]

    def to_json(self) -> JsonObject:
        """Return the content of the file."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Parse the content of a file in any format up to ``FORMAT``. Raises ValueError."""


Record = TypeVar("Record", bound=Storable)


def content_to_store(record: Storable) -> JsonObject:
    """Return the content of the file of ``record``, with its stamp."""
    return add_stamp(record.to_json(), record.FORMAT)


@lru_cache(maxsize=1_024)
def _record_in(kind: type[Record], content: bytes) -> Record:
    """Parse a record, once: those who look at a stream read most of its records again and again. Raises ValueError."""
    value = _object_in(content)
    damage = unknown_format(value, kind.FORMAT)
    if damage is not None:
        raise ValueError(damage)
    return kind.from_json(value)


@dataclass(frozen=True, slots=True)
class RecordFile(Generic[Record]):
    """The file at ``path``, which keeps one ``kind`` of record. ``durable``: as ``write_json``."""

    path: ControlPath
    kind: type[Record]
    durable: bool = True

    def examine(self) -> Reading[Record]:
        """Read the record. The result tells an absent file from a damaged one. Never raises."""
        found = _examine_bytes(self.path)
        if found.value is None:
            return Reading(error=found.error)
        try:
            return Reading(value=_record_in(self.kind, found.value))
        except ValueError as error:
            return Reading(error=DamagedFile(uri_of(self.path), str(error)))

    def read(self) -> Record | None:
        """Return the record, or None if it is absent or damaged. Never raises."""
        return self.examine().value

    def require(self) -> Record | None:
        """Return the record, None if it is absent. Raises DamagedFile, UnreadablePath, ControlUnreachable."""
        return self.examine().require()

    def write(self, record: Record) -> None:
        """Replace the file by ``record``. Raises UnwritablePath, DiskFull, ControlUnreachable."""
        write_json(self.path, content_to_store(record), durable=self.durable)

    def create(self, record: Record) -> bool:
        """Create the file unless it exists. Returns True for the one caller that did.

        Raises UnwritablePath, DiskFull, ControlUnreachable.
        """
        return create_json(self.path, content_to_store(record))

    def remove(self) -> None:
        """Delete the file, if it exists. Raises OSError."""
        Store(self.path).remove()


@dataclass(frozen=True, slots=True)
class ControlFile(Generic[Record]):
    """A file of each stream's control directory. One with a ``key``, such as a driver's uid, has it in its ``name``."""

    name: str
    kind: type[Record]
    key: str = ""
    durable: bool = True

    def of(self, home: StreamHome, key: str = "") -> RecordFile[Record]:
        """Return the file of a stream, and of a ``key`` if it has one. Raises InvalidSpec for an invalid key."""
        name = self.name.format(check_identifier(self.key, key)) if self.key else self.name
        return RecordFile(home.control / name, self.kind, self.durable)

    def folder(self, home: StreamHome) -> ControlPath:
        """Return the folder of the files of all keys."""
        return (home.control / self.name).parent


@dataclass(frozen=True, slots=True)
class LineageFile(Generic[Record]):
    """A file of each lineage's records."""

    name: str
    kind: type[Record]

    def of(self, home: StreamHome, lineage: str) -> RecordFile[Record]:
        """Return the file of a lineage. Raises InvalidSpec if ``lineage`` is no identifier."""
        return RecordFile(home.lineage(lineage).records / self.name, self.kind)

    def content(self, record: Record) -> dict[str, JsonObject]:
        """Return what the file of ``record`` would hold, by the file's name."""
        return {self.name: content_to_store(record)}
