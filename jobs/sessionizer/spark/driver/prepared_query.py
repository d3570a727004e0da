"""A query of a stream inside a driver: built, started, recovered from failures that it can go on without.

The files of a planned batch are checked before it writes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sessionizer.checkpoint.files import files_of_batch
from sessionizer.checkpoint.log_entries import PARTITIONS, partitions_of, read_begun_batch
from sessionizer.core.wire import rows
from sessionizer.errors import SessionizerError, SourceFilesGone, SourceUnreachable
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import resolve_place
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.batch_log import BatchFacts, BatchLog, OpenSessions, lag_behind, table_key
from sessionizer.lineage.excluded_ranges import file_position
from sessionizer.spark.failures.query_failure import columns_changed
from sessionizer.spark.ingest.file_source.files import is_summary
from sessionizer.spark.ingest.file_source.folder_watch import sizes_of
from sessionizer.spark.ingest.file_source.unfit_files import UnreadableFiles, find_unfit_files
from sessionizer.spark.ingest.kafka_values.registry import SCHEMA_IDS_FILE, note_unknown_id
from sessionizer.spark.ingest.source import SourceMemory
from sessionizer.spark.ingest.topics import ColumnIds, find_other_column, require_same_columns
from sessionizer.spark.internals.delta_log import column_ids
from sessionizer.spark.query.assembly import SessionQuery, session_query
from sessionizer.spark.sinks.examine import Examined, examine
from sessionizer.spark.sinks.measures import GuardedAggregates
from sessionizer.spark.sinks.write import Sinks
from sessionizer.stream_spec.document.source import Source
from sessionizer.stream_spec.document.stream import StreamSpec

if TYPE_CHECKING:
    from sessionizer.spark.driver.heartbeat_writer import HeartbeatWriter
    from sessionizer.spark.driver.query_watch import StopGate


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """The parts of a streaming query. ``permit`` returns only while the lease is known to be ours."""

    spark: SparkSession
    spec: StreamSpec
    examined: Examined
    home: StreamHome
    lineage: str
    gate: StopGate
    heartbeat: HeartbeatWriter
    open_sessions: OpenSessions
    batch_log: BatchLog
    permit: Callable[[], None]
    files: BatchFiles

    def build(self) -> tuple[SessionQuery, Sinks]:
        """Build the query and the writer of its output. The tables exist by now."""
        guarded, sink = self.examined.guarded, self.spec.sink
        query = session_query(self.spark, self.spec, guarded, self.home.punctuations(self.lineage))
        locations, measures = self.home.table_locations(sink.path), GuardedAggregates.of(self.spark, self.spec.measures)
        fields, stream, shows_open = guarded.payload_fields, self.spec.name, sink.open_sessions_every_ms is not None
        begun, keep = read_begun_batch(self.home.checkpoint(self.lineage)), sink.keep_events
        return query, Sinks(self.lineage, locations, fields, measures, keep, self.permit, stream, begun, shows_open)

    def start(self, *, until_caught_up: bool) -> StreamingQuery:
        """Start the query. With ``until_caught_up`` it ends by itself when it has read all that the source has now."""
        query, sinks = self.build()

        def write(emitted: DataFrame, batch_id: int) -> None:
            try:
                with self.gate.batch(batch_id):
                    self._write(sinks, emitted, batch_id)
            finally:
                if self.gate.refused:  # Spark logs this end of the query as an error with two stacks
                    self.spark.sparkContext.setLogLevel("FATAL")

        # for a lineage that resumes, Spark takes the number that it began with
        self.spark.conf.set(PARTITIONS, partitions_of(self.spark.conf.get(PARTITIONS), self.spec.key_groups))
        # on the wall clock Spark always wants one more batch, with or without data, so a query would never catch up
        without_data = not until_caught_up or self.spec.rules.clock.has_watermark
        self.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", str(without_data).lower())
        every_ms = None if until_caught_up else self.spec.trigger_interval_ms
        # docker/prometheus/prometheus.yaml takes the labels of the query's metrics from its name
        name = f"{self.spec.name}.lineage.{self.lineage}"
        return query.start(write, self.home.checkpoint(self.lineage), every_ms, name)

    def _write(self, sinks: Sinks, emitted: DataFrame, batch_id: int) -> None:
        self.permit()
        self.files.require(self.spark, self.spec, batch_id)
        counts = sinks.write(emitted, batch_id)
        open_before = self.open_sessions.most
        self.open_sessions.learn(batch_id, counts.open_in_groups)
        written = [table_key(self.spec.sink.path, table) for table in counts.tables]
        late, quarantined, watermark_ms = counts[rows.LATE], counts[rows.QUARANTINE], self.heartbeat.beat.watermark_ms
        facts = BatchFacts(
            batch_id=batch_id,
            read=counts.admitted + late + quarantined,
            admitted=counts.admitted,
            late=late,
            quarantined=quarantined,
            sessions=counts[rows.SESSIONS],
            open_before=open_before,
            open_after=self.open_sessions.most,
            held_bytes=self.open_sessions.held_bytes,
            lag_ms=lag_behind(epoch_ms(), watermark_ms, self.spec.rules.watermark_delay_ms),
        )
        self.batch_log.add(facts, written)
        self.heartbeat.note_written(batch_id, counts, self.open_sessions)

    def recovered(self, error: Exception) -> tuple[PreparedQuery, str] | None:
        """Return this query without the cause that ended it, and that cause. None if a new query would end alike.

        A file that cannot be read is quarantined and left out. A source whose columns changed is examined anew, and so
        is one whose values name another schema. Raises SourceFilesGone, SourceUnreachable.
        """
        require_folder(self.home, self.spec.source)  # Spark names no folder if the source's is gone
        if self.files.error is not None:
            raise self.files.error from error
        files = UnreadableFiles.of(self.home, self.lineage)
        reason = self.files.reason() or files.meet(error, self.spark, self.spec, self.files.brought)
        reason = reason or note_unknown_id(SCHEMA_IDS_FILE.of(self.home, self.lineage), error) or columns_changed(error)
        if reason is None:
            return None
        columns = require_same_columns(self.spark, self.home, self.spec, self.lineage)
        examined = examine(self.spark, self.spec, self.home.platform, SourceMemory.of(self.home, self.lineage))
        if examined.guarded.payload != self.examined.guarded.payload:
            return None
        return replace(self, examined=examined, files=BatchFiles(self.home, self.lineage, columns)), reason


AWAY: Final = "the folder is not there"


def require_folder(home: StreamHome, source: Source) -> None:
    """Raise SourceUnreachable if the folder of a stream that has run before is missing, such as an unmounted one."""
    if (folder := missing_folder(home, source)) is not None and active_lineage(home) is not None:
        raise SourceUnreachable(folder, AWAY)


def missing_folder(home: StreamHome, source: Source) -> str | None:
    """Return the folder of the source if it is not there. None if it is, or cannot be seen from here."""
    if source.format != "files":
        return None
    folder = resolve_place(source.path, home.platform)
    return None if "://" in folder or Path(folder).is_dir() else folder


class FilesPutAside(Exception):
    """The batch has unreadable files. A query that starts anew leaves them out."""


class ColumnReplaced(Exception):
    """A name that the mapping uses is another column of the source now. A query that starts anew reads that one."""


@dataclass(slots=True)
class BatchFiles:
    """A check of what each batch of a lineage reads. ``error``, ``put_aside`` and ``other``: why it ended a query."""

    home: StreamHome
    lineage: str
    columns: ColumnIds = field(default_factory=dict)
    other: str | None = None
    error: SessionizerError | None = None
    put_aside: dict[str, str] = field(default_factory=dict)
    brought: list[str] = field(default_factory=list)
    """The files of the batch."""

    def require(self, spark: SparkSession, spec: StreamSpec, batch_id: int) -> None:
        """Check the files. Raises SourceFilesGone, SourceUnreachable, ColumnReplaced, FilesPutAside to skip some."""
        source = spec.source
        if source.format == "delta" and self.columns:
            now = column_ids(spark, resolve_place(source.path, self.home.platform))
            if (other := find_other_column(spec, self.columns, now)) is not None:
                self.other = other
                raise ColumnReplaced
        if source.format != "files":
            return
        unreadable = UnreadableFiles.of(self.home, self.lineage)
        known = set(unreadable.uris())
        brought = map(file_position, files_of_batch(self.home.checkpoint(self.lineage), batch_id))
        sizes = sizes_of(spark, [uri for uri in brought if uri not in known and not is_summary(source, uri)])
        if gone := [uri for uri, size in sizes.items() if size is None]:
            # if the folder is gone as well, it was unmounted or will be back
            folder, files = missing_folder(self.home, source), SourceFilesGone(self.home.name, batch_id, tuple(gone))
            self.error = SourceUnreachable(folder, AWAY) if folder else files
            raise self.error
        if source.encoding == "parquet":
            unreadable.report_empty([uri for uri, size in sizes.items() if not size])
        self.brought = list(sizes)
        self.put_aside = find_unfit_files(spark, source, self.brought)
        for uri, problem in self.put_aside.items():
            unreadable.put_aside(uri, problem)
        if self.put_aside:
            raise FilesPutAside

    def reason(self) -> str | None:
        """Say what the next query does otherwise, None if nothing."""
        if self.other is not None:
            return f"the columns of the source changed: {self.other!r} is another one"
        files = [f"{uri} ({problem})" for uri, problem in self.put_aside.items()]
        return f"quarantined as a whole, as it cannot be read: {', '.join(files)}" if files else None
