"""The driver's note on its Kafka source, once a minute: how far it has read, and what the broker still keeps.

The broker is asked on a thread of its own, because a broker that does not answer must not hold up the driver's watch.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.driver_records import POSITIONS_FILE, PartitionPosition, PositionsRecord
from sessionizer.errors import SessionizerError
from sessionizer.home.clock import MINUTE, epoch_ms
from sessionizer.spark.driver.housekeeping.background_work import BackgroundWork
from sessionizer.spark.ingest.topics import oldest_offsets
from sessionizer.spark.internals.java_errors import JavaError, JavaUnreachable
from sessionizer.stream_spec.document.source import KafkaSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sessionizer.spark.driver.prepared_query import PreparedQuery

EVERY_MS: Final = MINUTE
ENDED_WITHIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Oldest:
    """The oldest ``offset`` that a broker kept ``at`` (epoch ms)."""

    offset: int
    at: int


def add_retention(
    partitions: Sequence[PartitionPosition], oldest: Mapping[str, int], first: Mapping[str, Oldest], now: int
) -> tuple[PartitionPosition, ...]:
    """Return the positions with the ``oldest`` offsets of ``now`` (epoch ms), and the time until events are lost.

    ``first``: the oldest offset of each partition at an earlier time. The broker deletes at the same pace from now on,
    and the stream reads nothing more.
    """

    def add(each: PartitionPosition) -> PartitionPosition:
        known, before = oldest.get(each.name), first.get(each.name)
        if known is None:
            return each
        found = replace(each, oldest=known)
        deleted = 0 if before is None else known - before.offset
        if before is None or deleted <= 0:
            return found
        return replace(found, lost_in_ms=max(0, each.offset - known) * (now - before.at) // deleted)

    return tuple(map(add, partitions))


class PositionsWatch:
    """The watch of one driver. It does nothing for a source that is not Kafka."""

    def __init__(self, prepared: PreparedQuery) -> None:
        self._prepared = prepared
        self._first: dict[str, Oldest] = {}
        self._next = 0
        self._work = BackgroundWork("positions")

    def look(self) -> None:
        """Note the positions if it is time. Never raises."""
        heartbeat, now = self._prepared.heartbeat, epoch_ms()
        if now < self._next or not heartbeat.positions or self._work.is_busy:
            return
        self._next = now + EVERY_MS
        record = PositionsRecord(
            at=now, lineage=heartbeat.beat.lineage, batch_id=heartbeat.beat.batch_id, partitions=heartbeat.positions
        )
        self._work.start(lambda: self._note(record))

    def end(self) -> None:
        """Return when no part of it runs, because Spark must not be stopped under a call."""
        self._work.end(ENDED_WITHIN_S)

    def _note(self, record: PositionsRecord) -> None:
        oldest = self._ask(record)
        partitions = add_retention(record.partitions, oldest, self._first, record.at)
        for name, offset in oldest.items():
            self._first.setdefault(name, Oldest(offset, record.at))
        with suppress(SessionizerError):
            POSITIONS_FILE.of(self._prepared.home).write(replace(record, partitions=partitions))

    def _ask(self, record: PositionsRecord) -> Mapping[str, int]:
        source = self._prepared.spec.source
        if not isinstance(source, KafkaSource):
            return {}
        with suppress(SessionizerError, JavaError, JavaUnreachable, OSError):
            return oldest_offsets(self._prepared.spark, source, [each.name for each in record.partitions])
        return {}
