"""What a micro-batch writes: up to three Delta tables, each idempotent by (lineage, batch id).

The batch is evaluated first and written after. A batch that Delta already holds is skipped by Delta, and state that
was never evaluated is never written, which no restart survives (docs/adr/0003).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from sessionizer.core.key_group.open_in_group import OpenInGroup
from sessionizer.core.key_group.table_rows import Origin, late_rows, quarantine_rows, session_rows
from sessionizer.core.wire import rows
from sessionizer.spark.internals.delta_append import Transaction, append_once
from sessionizer.spark.sinks import table_shapes
from sessionizer.spark.sinks.measures import with_measures
from sessionizer.spark.sinks.unpack import few_blobs_at_a_time, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from sessionizer.core.wire import schema
    from sessionizer.spark.sinks.guarded_aggregates import GuardedAggregates


@dataclass(slots=True)
class BatchCounts:
    """What one batch brought.

    Rows of each kind (``rows.*``), what groups said of what is open in them, in that order, and the Delta version of
    ``sessions`` if it was written.
    """

    of_kind: dict[str, int] = field(default_factory=dict)
    open_in_groups: list[tuple[int, OpenInGroup]] = field(default_factory=list)
    sessions_version: int | None = None

    @property
    def admitted(self) -> int:
        """Events that were neither refused nor late."""
        return sum(open_in_group.admitted for _, open_in_group in self.open_in_groups)

    def __getitem__(self, kind: str) -> int:
        return self.of_kind.get(kind, 0)


@dataclass(frozen=True, slots=True)
class Sinks:
    """Writes the operator's output. ``locations``: table name to path; ``permit`` raises when we may not write."""

    lineage: str
    locations: Mapping[str, str]
    payload: schema.Payload
    measures: GuardedAggregates
    keep_events: bool
    permit: Callable[[], None]

    def write(self, emitted: DataFrame, batch_id: int) -> BatchCounts:
        """Evaluate the batch, then write what it emitted; returns the rows of each kind."""
        # on disk, however much it is: in memory it would be there beside what the writers of the tables need
        emitted.persist(StorageLevel.DISK_ONLY)
        try:
            counts = _evaluate(emitted)
            with few_blobs_at_a_time(emitted.sparkSession):
                self._append_all(emitted, counts, batch_id)
            return counts
        finally:
            emitted.unpersist()

    def _append_all(self, emitted: DataFrame, counts: BatchCounts, batch_id: int) -> None:
        if counts[rows.SESSIONS]:
            counts.sessions_version = self._append(table_shapes.SESSIONS, self.sessions(emitted, batch_id), batch_id)
        if counts[rows.LATE]:
            self._append(table_shapes.LATE_EVENTS, self.late_events(emitted, batch_id), batch_id)
        if counts[rows.QUARANTINE]:
            self._append(table_shapes.QUARANTINE, self.quarantine(emitted, batch_id), batch_id)

    def sessions(self, emitted: DataFrame, batch_id: int) -> DataFrame:
        """Rows of the table ``sessions``."""
        shape = session_rows(self.payload, keep_events=self.keep_events or bool(self.measures.columns))
        sessions = unpack(emitted, rows.SESSIONS, shape, Origin.now(self.lineage, batch_id))
        measured = with_measures(sessions, self.measures)
        return measured if self.keep_events else measured.drop("events")

    def late_events(self, emitted: DataFrame, batch_id: int) -> DataFrame:
        """Rows of the table ``late_events``."""
        return unpack(emitted, rows.LATE, late_rows(self.payload), Origin.now(self.lineage, batch_id))

    def quarantine(self, emitted: DataFrame, batch_id: int) -> DataFrame:
        """Rows of the table ``quarantine``."""
        return unpack(emitted, rows.QUARANTINE, quarantine_rows(), Origin.now(self.lineage, batch_id))

    def _append(self, table: str, frame: DataFrame, batch_id: int) -> int | None:
        return append_once(frame, self.locations[table], Transaction(self.lineage, batch_id), self.permit)


def _evaluate(emitted: DataFrame) -> BatchCounts:
    counts = BatchCounts()
    open_in_group = F.when(F.col("kind") == rows.OPEN, F.col("blob")).alias("open_in_group")
    for row in emitted.select("kind", "key_group", "row_count", open_in_group).collect():
        if row.kind == rows.OPEN:
            counts.open_in_groups.append((row.key_group, OpenInGroup.from_json(bytes(row.open_in_group))))
        counts.of_kind[row.kind] = counts[row.kind] + row.row_count
    return counts
