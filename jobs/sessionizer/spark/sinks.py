"""What a micro-batch writes: up to three Delta tables, each idempotent by (lineage, batch id).

The batch is evaluated first and written after. A batch that Delta already holds is skipped by Delta, and state that
was never evaluated is never written, which no restart survives (shared facts).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from sessionizer.spark import rows, tables
from sessionizer.spark.delta_state import warm_up
from sessionizer.spark.measures import with_measures
from sessionizer.spark.unpack import Origin, unpack_late, unpack_quarantine, unpack_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame

    from sessionizer.core import schema

SESSION_ID: Final = r"substring(sha2(concat(key, '\0', unix_millis(started_at), '\0', first_event_id), 256), 1, 32)"

_LAST_DELTA_VERSION: Final = "spark.databricks.delta.lastCommitVersionInSession"


@dataclass(slots=True)
class BatchCounts:
    """What one batch brought.

    Rows of each kind (``rows.*``), open sessions of the groups that merged, and the Delta version of ``sessions`` if it
    was written.
    """

    of_kind: dict[str, int] = field(default_factory=dict)
    open_of_group: dict[int, int] = field(default_factory=dict)
    sessions_version: int | None = None

    def __getitem__(self, kind: str) -> int:
        return self.of_kind.get(kind, 0)


@dataclass(frozen=True, slots=True)
class Sinks:
    """Writes the operator's output. ``locations``: table name to path; ``permit`` raises when we may not write."""

    lineage: str
    locations: Mapping[str, str]
    payload: schema.Payload
    measures: Mapping[str, str]
    keep_events: bool
    permit: Callable[[], None]

    def write(self, emitted: DataFrame, batch_id: int) -> BatchCounts:
        """Evaluate the batch, then write what it emitted; returns the rows of each kind."""
        emitted.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            counts = _evaluate(emitted)
            if counts[rows.SESSIONS]:
                self._append(tables.SESSIONS, self.sessions(emitted, batch_id), batch_id)
                version = emitted.sparkSession.conf.get(_LAST_DELTA_VERSION, None)
                counts.sessions_version = None if version is None else int(version)
            if counts[rows.LATE]:
                self._append(tables.LATE_EVENTS, self.late_events(emitted, batch_id), batch_id)
            if counts[rows.QUARANTINE]:
                self._append(tables.QUARANTINE, self.quarantine(emitted, batch_id), batch_id)
            return counts
        finally:
            emitted.unpersist()

    def sessions(self, emitted: DataFrame, batch_id: int) -> DataFrame:
        """Rows of the table ``sessions``."""
        unpacked = identified(unpack_sessions(emitted, self.payload, Origin.now(self.lineage, batch_id)))
        measured = with_measures(unpacked, self.measures)
        events = ["events"] if self.keep_events else []
        return measured.select(
            "session_id",
            "key",
            "client",
            F.to_date("started_at").alias("date"),
            "started_at",
            "ended_at",
            _milliseconds_between("started_at", "ended_at").alias("duration_ms"),
            "event_count",
            "close_reason",
            *self.measures,
            *events,
            "lineage",
            "batch_id",
            "emitted_at",
        )

    def late_events(self, emitted: DataFrame, batch_id: int) -> DataFrame:
        """Rows of the table ``late_events``."""
        late = unpack_late(emitted, self.payload, Origin.now(self.lineage, batch_id))
        return late.withColumn("date", F.to_date("event_time"))

    def quarantine(self, emitted: DataFrame, batch_id: int) -> DataFrame:
        """Rows of the table ``quarantine``."""
        refused = unpack_quarantine(emitted, Origin.now(self.lineage, batch_id))
        return refused.withColumn("date", F.to_date("quarantined_at"))

    def _append(self, table: str, frame: DataFrame, batch_id: int) -> None:
        self.permit()
        writer = frame.write.format("delta").mode("append")
        writer = writer.option("txnAppId", self.lineage).option("txnVersion", batch_id)
        writer.save(self.locations[table])
        warm_up(frame.sparkSession, self.locations[table])


def identified(sessions: DataFrame) -> DataFrame:
    """Add ``session_id``, as ``sessionizer.core.identity`` defines it, computed by Spark."""
    return sessions.withColumn("session_id", F.expr(SESSION_ID)).drop("first_event_id")


def _evaluate(emitted: DataFrame) -> BatchCounts:
    counts = BatchCounts()
    for row in emitted.select("kind", "key_group", "row_count").collect():
        if row.kind == rows.OPEN:
            counts.open_of_group[row.key_group] = row.row_count
        counts.of_kind[row.kind] = counts[row.kind] + row.row_count
    return counts


def _milliseconds_between(start: str, end: str) -> Column:
    return F.unix_millis(end) - F.unix_millis(start)
