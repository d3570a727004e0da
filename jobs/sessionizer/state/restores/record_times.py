"""Records of Kafka in a span of time, as the offsets that each partition has for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sessionizer.counts import count_text
from sessionizer.lineage.excluded_ranges import ExcludedRange, Records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Offsets: TypeAlias = "Mapping[str, Mapping[str, int]]"
"""Offsets by topic and partition."""


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """Records of all partitions of ``topic`` from the moment ``since`` on, and before ``until`` (epoch ms).

    In each partition they begin with the first record at or after ``since``, and end before the first at or after
    ``until``. Kafka looks these up by the timestamps of records.
    """

    topic: str
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of the partitions of a topic: at ``since``, at ``until``, and where the savepoint ``begins`` to read."""

    since: Offsets
    until: Offsets
    begins: Offsets | None

    def ranges(self, typed: str, topic: str) -> list[ExcludedRange]:
        """Return a range for each partition that has a record in the span, of those that are read again."""
        return [ExcludedRange(typed, records=records) for records, _ in self._found(topic) if records is not None]

    def remarks(self, typed: str, topic: str) -> list[str]:
        """Tell how many records of the span the savepoint has read, so that they stay."""
        stay = sum(read for _, read in self._found(topic))
        if not stay:
            return []
        return [
            f"{count_text(stay, 'more record')} of {typed}, read before the savepoint: its state keeps what is open"
        ]

    def _found(self, topic: str) -> Iterator[tuple[Records | None, int]]:
        """Yield by partition the records that are read again and the number of those that were read before."""
        begins = (self.begins or {}).get(topic, {})
        stops = self.until.get(topic, {})
        for partition, since in sorted(self.since.get(topic, {}).items(), key=lambda each: int(each[0])):
            first, end = max(since, begins.get(partition, 0)), stops.get(partition, since)
            read = max(0, min(end, begins.get(partition, 0)) - since)
            yield (Records(topic, int(partition), first, end) if first < end else None), read
