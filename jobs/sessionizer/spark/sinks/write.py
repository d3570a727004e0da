"""Output of a micro-batch: up to four Delta tables, each idempotent by (lineage, batch id).

The batch is evaluated first and written after. A batch that Delta already holds is skipped by Delta, and state that was
never evaluated is never written, which no restart survives (docs/adr/0003).

Emitted blobs are unpacked into rows in ``mapInArrow``, each kind as its table has them. All columns are made in Arrow.
Expressions of Spark would be planned anew in every batch, and what differs between batches would stand in the code that
Spark generates, which would then be compiled anew (docs/develop/tuning.md).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.storagelevel import StorageLevel

from sessionizer.core.key_group import table_rows
from sessionizer.core.key_group.group_load import OpenInGroup
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.codec import open_blob
from sessionizer.errors import DataAway, StateBehindTables
from sessionizer.home import names
from sessionizer.spark.frozen_imports import freeze_imports
from sessionizer.spark.internals.delta_append import TableMissing, Transaction, write_once
from sessionizer.spark.session import temporary_settings
from sessionizer.spark.sinks.measures import GuardedAggregates, add_measures

ARROW_LIMIT: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
BLOBS_TO_PYTHON_BYTES: Final = 2**25
"""Bytes of an Arrow batch of blobs on the way into Python, give or take a blob."""


def few_blobs_at_a_time(spark: SparkSession) -> AbstractContextManager[None]:
    """Have Spark weigh the Arrow batches of plans made and run in the block (see ``session.spare_small_rows``)."""
    return temporary_settings(spark, {ARROW_LIMIT: str(BLOBS_TO_PYTHON_BYTES)})


def unpack(emitted: DataFrame, kind: str, shape: table_rows.RowShape, origin: table_rows.RowOrigin) -> DataFrame:
    """Unpack the blobs of ``kind`` (of ``rows``) into rows of ``shape``."""

    def open_blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column("blob"):
                for opened in open_blob(blob.as_buffer()):
                    yield shape.rows(opened, origin)
        freeze_imports(unpack.__name__)

    blobs = emitted.where(F.col("kind") == kind).select("blob")
    return blobs.mapInArrow(open_blobs, from_arrow_schema(shape.schema, prefer_timestamp_ntz=False))


_TABLES: Final = {
    rows.SESSIONS: names.SESSIONS,
    rows.LATE: names.LATE_EVENTS,
    rows.QUARANTINE: names.QUARANTINE,
}
"""The table for the emitted rows of each kind, in the order in which they are written."""


@dataclass(slots=True)
class BatchCounts:
    """Results of one batch: rows by kind (``rows.*``), reports of groups, versions of written tables, durations."""

    of_kind: dict[str, int] = field(default_factory=dict)
    open_in_groups: list[tuple[int, OpenInGroup]] = field(default_factory=list)
    versions: dict[str, int | None] = field(default_factory=dict)
    evaluated_ms: int = 0
    written_ms: int = 0

    @property
    def tables(self) -> list[str]:
        """Tables that have rows of this batch."""
        return [_TABLES[kind] for kind in self.versions]

    @property
    def admitted(self) -> int:
        """Number of events that were neither refused nor late."""
        return sum(open_in_group.admitted for _, open_in_group in self.open_in_groups)

    @property
    def closed(self) -> Mapping[str, int]:
        """Closed sessions by reason."""
        closed = Counter[str]()
        for _, open_in_group in self.open_in_groups:
            closed.update(open_in_group.load.closed)
        return dict(closed)

    def __getitem__(self, kind: str) -> int:
        return self.of_kind.get(kind, 0)


@dataclass(frozen=True, slots=True)
class Sinks:
    """Writer of the operator's output. ``locations``: table name to path. ``permit`` raises when we may not write.

    ``begun``: the newest batch of the lineage that may have been written before: it is run again, with the same rows.
    ``shows_open``: whether a snapshot of the open sessions replaces the rows of ``open_sessions``.
    """

    lineage: str
    locations: Mapping[str, str]
    payload: schema.Payload
    measures: GuardedAggregates
    keep_events: bool
    permit: Callable[[], None]
    stream: str = ""
    begun: int | None = None
    shows_open: bool = False

    def write(self, emitted: DataFrame, batch_id: int) -> BatchCounts:
        """Evaluate the batch, then write its output. Raises StateBehindTables for a table ahead of it, and DataAway."""
        # on disk, however much it is: in memory it would be there beside what the writers of the tables need
        emitted.persist(StorageLevel.DISK_ONLY)
        began = time.monotonic()
        try:
            counts = _evaluate(emitted)
            evaluated = time.monotonic()
            with few_blobs_at_a_time(emitted.sparkSession):
                for kind, table in _TABLES.items():
                    if counts[kind]:
                        counts.versions[kind] = self._append(table, self._rows(emitted, kind, batch_id), batch_id)
                if self.shows_open and rows.SNAPSHOT in counts.of_kind:
                    # after the sessions, so that no session is in neither table
                    snapshot = self._rows(emitted, rows.SNAPSHOT, batch_id)
                    self._put(names.OPEN_SESSIONS, snapshot, batch_id, replaces=True)
            counts.evaluated_ms = round((evaluated - began) * 1000)
            counts.written_ms = round((time.monotonic() - evaluated) * 1000)
            return counts
        finally:
            emitted.unpersist()

    def _rows(self, emitted: DataFrame, kind: str, batch_id: int) -> DataFrame:
        origin = table_rows.RowOrigin.now(self.lineage, batch_id)
        unpacked = unpack(emitted, kind, self._shape(kind), origin)
        if kind == rows.SNAPSHOT and self.measures.columns:
            # apart, so that the ids are made once, and the events do not travel to the join
            events = unpack(emitted, kind, table_rows.open_events(self.payload), origin)
            return add_measures(unpacked, self.measures, events, "_place").drop("_place")
        if kind != rows.SESSIONS:
            return unpacked
        measured = add_measures(unpacked, self.measures)
        return measured if self.keep_events else measured.drop("events")

    def _shape(self, kind: str) -> table_rows.RowShape:
        if kind == rows.SESSIONS:
            return table_rows.session_rows(self.payload, keep_events=self.keep_events or bool(self.measures.columns))
        if kind == rows.SNAPSHOT:
            return table_rows.open_rows(self.payload, shows_events=bool(self.measures.columns))
        return table_rows.late_rows(self.payload) if kind == rows.LATE else table_rows.quarantine_rows()

    def _append(self, table: str, frame: DataFrame, batch_id: int) -> int | None:
        version, begun = self._put(table, frame, batch_id), -1 if self.begun is None else self.begun
        if version is None and batch_id > begun:
            raise StateBehindTables(self.stream, self.locations[table], self.lineage, batch_id, begun)
        return version

    def _put(self, table: str, frame: DataFrame, batch_id: int, *, replaces: bool = False) -> int | None:
        location, transaction = self.locations[table], Transaction(self.lineage, batch_id)
        try:
            return write_once(frame, location, transaction, self.permit, replaces=replaces)
        except TableMissing as error:
            raise DataAway(self.stream, f"the table {table}", location) from error


def _evaluate(emitted: DataFrame) -> BatchCounts:
    counts = BatchCounts()
    open_in_group = F.when(F.col("kind") == rows.OPEN, F.col("blob")).alias("open_in_group")
    for row in emitted.select("kind", "key_group", "row_count", open_in_group).collect():
        if row.kind == rows.OPEN:
            counts.open_in_groups.append((row.key_group, OpenInGroup.from_json(bytes(row.open_in_group))))
        counts.of_kind[row.kind] = counts[row.kind] + row.row_count
    return counts
