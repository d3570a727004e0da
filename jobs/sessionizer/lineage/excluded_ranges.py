"""``excluded_ranges.json`` of a lineage: the ranges of its source whose rows it quarantines (docs/adr/0104).

A range is held by the positions that rows tell of themselves, so each replay of a batch leaves out the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from sessionizer.counts import count_text
from sessionizer.home.json_record import UNSTAMPED, JsonObject, JsonRecord
from sessionizer.home.record_file import ControlFile, LineageFile, have_folder
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import examine_active

_POSITION_OF_RECORD: Final = re.compile(r"(.+)-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Records(JsonRecord):
    """A range of records in a partition of Kafka, from the offset ``first`` up to ``end``, which is excluded."""

    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        """Format the range for a message."""
        count = self.end - self.first
        offsets = f"offset {self.first}" if count == 1 else f"offsets {self.first} to {self.end - 1}"
        return f"{count_text(count, 'record')}: {offsets} of partition {self.partition} of {self.topic}"


@dataclass(frozen=True, slots=True)
class ExcludedRange:
    """An excluded range: ``typed`` as the user gave it, resolved to ``files`` (URIs) or ``records``."""

    typed: str
    files: tuple[str, ...] = ()
    records: Records | None = None

    def holds(self, position: str) -> bool:
        """Whether a row with that ``source_position`` is in the range."""
        if self.records is None:
            return file_position(position) in self.files
        found = _POSITION_OF_RECORD.fullmatch(position)
        if found is None or (found[1], int(found[2])) != (self.records.topic, self.records.partition):
            return False
        return self.records.first <= int(found[3]) < self.records.end

    def __str__(self) -> str:
        """Format the range for a message."""
        return f"{self.typed} ({self.records or count_text(len(self.files), 'file')})"

    def to_json(self) -> JsonObject:
        """Return the entry of ``excluded_ranges.json``."""
        of_source = {"files": list(self.files)} if self.records is None else self.records.to_json()
        return {"range": self.typed, **of_source}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read an entry of ``excluded_ranges.json``. Raises KeyError, TypeError, ValueError."""
        if "files" in value:
            return cls(str(value["range"]), files=tuple(map(str, value["files"])))
        return cls(str(value["range"]), records=Records.from_json(value))


@dataclass(frozen=True, slots=True)
class ExcludedRanges:
    """All ``ranges`` that a lineage excludes. An empty one is false."""

    ranges: tuple[ExcludedRange, ...] = ()

    FORMAT: ClassVar[int] = UNSTAMPED

    def __bool__(self) -> bool:
        """Whether there is a range."""
        return bool(self.ranges)

    @property
    def files(self) -> list[str]:
        """Files of all ranges (URIs), sorted."""
        return sorted({file for each in self.ranges for file in each.files})

    @property
    def records(self) -> list[Records]:
        """Records of all ranges."""
        return [each.records for each in self.ranges if each.records is not None]

    def holds(self, position: str) -> bool:
        """Whether a row with that ``source_position`` is excluded."""
        return any(each.holds(position) for each in self.ranges)

    def covers(self, other: ExcludedRange) -> bool:
        """Whether all of the ``other`` range is excluded."""
        wanted = other.records
        if wanted is None:
            return set(other.files) <= set(self.files)
        return any(
            (each.topic, each.partition) == (wanted.topic, wanted.partition)
            and each.first <= wanted.first
            and wanted.end <= each.end
            for each in self.records
        )

    def and_also(self, others: Iterable[ExcludedRange]) -> ExcludedRanges:
        """Add the ``others``, each once."""
        return ExcludedRanges(tuple(dict.fromkeys((*self.ranges, *others))))

    def select_topics(self, topics: Collection[str]) -> ExcludedRanges:
        """Keep only the ranges of records in ``topics``."""
        return ExcludedRanges(tuple(each for each in self.ranges if each.records and each.records.topic in topics))

    def drop_topics(self, topics: Collection[str]) -> ExcludedRanges:
        """Drop the ranges of records in ``topics``."""
        kept = (each for each in self.ranges if not each.records or each.records.topic not in topics)
        return ExcludedRanges(tuple(kept))

    def lines(self) -> Iterator[str]:
        """Format each range for a message."""
        return map(str, self.ranges)

    def to_json(self) -> JsonObject:
        """Return the content of ``excluded_ranges.json``."""
        return {"ranges": [each.to_json() for each in self.ranges]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Parse the content of ``excluded_ranges.json``. Raises ValueError."""
        try:
            return cls(tuple(map(ExcludedRange.from_json, value["ranges"])))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"it names no excluded ranges: {error!r}") from error


NOTHING_EXCLUDED: Final = ExcludedRanges()
EXCLUDED_RANGES_FILE: Final = LineageFile("excluded_ranges.json", ExcludedRanges)
APPROVED_RANGES_FILE: Final = ControlFile("excluded_ranges/{}.json", ExcludedRanges, key="operation")


def file_position(uri: str) -> str:
    """Write a file's URI as Spark's metadata column does: without an empty host."""
    return re.sub(r"^(\w+):///", r"\1:/", uri)


def read_excluded_ranges(home: StreamHome, lineage: str | None) -> ExcludedRanges:
    """Read the ranges of ``lineage``. Raises DamagedFile, as no row may come in, ControlUnreachable."""
    return (EXCLUDED_RANGES_FILE.of(home, lineage).require() if lineage else None) or NOTHING_EXCLUDED


def read_approved(home: StreamHome, operation: str) -> ExcludedRanges:
    """Read the approved ranges of an operation. Raises DamagedFile, ControlUnreachable."""
    return APPROVED_RANGES_FILE.of(home, operation).require() or NOTHING_EXCLUDED


def keep_excluded_ranges(home: StreamHome, operation: str, excluded_ranges: ExcludedRanges) -> None:
    """Save the approved ranges for a second run of the operation. Raises UnwritablePath, DiskFull."""
    have_folder(APPROVED_RANGES_FILE.folder(home), "the excluded ranges")
    APPROVED_RANGES_FILE.of(home, operation).write(excluded_ranges)


def examine_excluded_ranges(home: StreamHome) -> ExcludedRanges:
    """Read the ranges of the active lineage for a command that only reads. Never raises."""
    return examine_active(home, read_excluded_ranges) or NOTHING_EXCLUDED
