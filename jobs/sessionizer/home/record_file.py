"""The files of records, each declared beside the kind of its record: of a stream, or of a lineage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol

from sessionizer.home.json_file import Record, RecordFile, content_to_store
from sessionizer.home.names import check_identifier

if TYPE_CHECKING:
    from sessionizer.home.json_record import JsonObject
    from sessionizer.home.lineage_home import LineageHome
    from sessionizer.home.roots import ControlPath


class RecordsHome(Protocol):
    """The part of a ``StreamHome`` that is used here."""

    @property
    def control(self) -> ControlPath:
        """The control directory."""

    def lineage(self, lineage: str) -> LineageHome:
        """Return the directories of ``lineage``."""


@dataclass(frozen=True, slots=True)
class ControlFile(Generic[Record]):
    """A file of each stream's control directory. One with a ``key``, such as a driver's uid, has it in its ``name``."""

    name: str
    kind: type[Record]
    key: str = ""
    durable: bool = True

    def of(self, home: RecordsHome, key: str = "") -> RecordFile[Record]:
        """Return the file of a stream, and of a ``key`` if it has one. Raises InvalidSpec for an invalid key."""
        name = self.name.format(check_identifier(self.key, key)) if self.key else self.name
        return RecordFile(home.control / name, self.kind, self.durable)

    def folder(self, home: RecordsHome) -> ControlPath:
        """Return the folder of the files of all keys."""
        return (home.control / self.name).parent


@dataclass(frozen=True, slots=True)
class LineageFile(Generic[Record]):
    """A file of each lineage's records."""

    name: str
    kind: type[Record]

    def of(self, home: RecordsHome, lineage: str) -> RecordFile[Record]:
        """Return the file of a lineage. Raises InvalidSpec if ``lineage`` is no identifier."""
        return RecordFile(home.lineage(lineage).records / self.name, self.kind)

    def content(self, record: Record) -> dict[str, JsonObject]:
        """Return what the file of ``record`` would hold, by the file's name."""
        return {self.name: content_to_store(record)}
