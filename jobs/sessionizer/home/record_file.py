"""Files that keep a record each, with its format and its writer. Every file of a control directory is one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from sessionizer.home.data_root import uri_of
from sessionizer.home.json_file import Reading, create_json, examine_json, unreadable, write_json
from sessionizer.home.names import checked_identifier
from sessionizer.home.stamp import stamped, unknown_format

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.control_root import ControlPath
    from sessionizer.home.json_record import JsonObject
    from sessionizer.home.stream_home import StreamHome


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
    return stamped(record.to_json(), record.FORMAT)


@dataclass(frozen=True, slots=True)
class RecordFile(Generic[Record]):
    """The file at ``path``, which keeps one ``kind`` of record.

    ``durable`` makes a write survive a power cut. Only files that are rewritten every few seconds are not durable.
    """

    path: ControlPath
    kind: type[Record]
    durable: bool = True

    def examine(self) -> Reading[Record]:
        """Read the record. The result tells an absent file from a damaged one. Never raises."""
        reading = examine_json(self.path)
        if reading.value is None:
            return Reading(damage=reading.damage, away=reading.away)
        damage = unknown_format(reading.value, self.kind.FORMAT)
        if damage is not None:
            return Reading(damage=f"{uri_of(self.path)}: {damage}")
        try:
            return Reading(value=self.kind.from_json(reading.value))
        except ValueError as error:
            return Reading(damage=f"{uri_of(self.path)}: {error}")

    def read(self) -> Record | None:
        """Return the record, or None if it is absent or damaged. Never raises."""
        return self.examine().value

    def require(self) -> Record | None:
        """Return the record, or None if it is absent. For files whose loss must not pass for absence.

        Raises DamagedFile, and ControlUnreachable if the file cannot be reached just now.
        """
        reading = self.examine()
        if reading.damage is not None:
            raise unreadable(self.path, reading)
        return reading.value

    def write(self, record: Record) -> None:
        """Replace the file by ``record``. Raises UnwritablePath, DiskFull, ControlUnreachable."""
        write_json(self.path, content_to_store(record), durable=self.durable)

    def create(self, record: Record) -> bool:
        """Create the file unless it exists. Returns True for the one caller that did.

        Raises UnwritablePath, DiskFull, ControlUnreachable.
        """
        return create_json(self.path, content_to_store(record))


@dataclass(frozen=True, slots=True)
class ControlFile(Generic[Record]):
    """A file of each stream's control directory. One with a ``key``, such as a driver's uid, has it in its ``name``."""

    name: str
    kind: type[Record]
    key: str = ""
    durable: bool = True

    def of(self, home: StreamHome, key: str = "") -> RecordFile[Record]:
        """Return the file of a stream, and of a ``key`` if it has one. Raises InvalidSpec for an invalid key."""
        name = self.name.format(checked_identifier(self.key, key)) if self.key else self.name
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
