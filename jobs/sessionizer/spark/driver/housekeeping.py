"""Housekeeping of a driver between two looks at its query. No failure of it may end the stream."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from sessionizer.core.definition.rules import IdleClock
from sessionizer.errors import ControlUnreachable, SessionizerError, StoreUnreachable
from sessionizer.home.clock import MINUTE, epoch_ms, monotonic_ms
from sessionizer.home.data_files import remove_tree
from sessionizer.home.local_files import BoundedLog
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.lineage.active import read_lineage
from sessionizer.lineage.canary.judge import backfill_command, describe_late_backlog
from sessionizer.spark.driver.lookups import BackgroundWork, Lookups, PositionsWatch
from sessionizer.spark.driver.options import Until
from sessionizer.spark.driver.prepared_query import PreparedQuery
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.ingest.file_source.folder_watch import FolderWatch
from sessionizer.spark.ingest.punctuation import PunctuationRemoval, TimeoutTable
from sessionizer.spark.internals.delta_append import Transaction, write_once
from sessionizer.spark.internals.java_errors import JavaError, JavaUnreachable
from sessionizer.spark.sinks.examine import ChangeWatch
from sessionizer.spark.sinks.table_shapes import quarantine_shape
from sessionizer.spark.sinks.tables import ensure_table

TIMEOUT_TABLE_EVERY_MS: Final = 5_000
FOLDER_EVERY_MS: Final = MINUTE
STORE_WITHIN_S: Final = 5.0
"""Time that a driver waits for the store when it ends. It also bounds how long a silent one delays a stop."""


class Housekeeping:
    """Housekeeping of the driver of ``prepared``. The driver ends by itself unless ``until`` is STOPPED."""

    def __init__(self, prepared: PreparedQuery, until: Until, say: Callable[[str], None]) -> None:
        self._prepared, self._heartbeat, self._say = prepared, prepared.heartbeat, say
        self._punctuations = prepared.home.punctuations(prepared.lineage)
        self._timeouts, self._next_timeouts = self._read_timeouts(), 0
        self._removal = PunctuationRemoval(self._punctuations, prepared.home.checkpoint(prepared.lineage), say)
        self._positions, self._lookups = PositionsWatch(prepared), Lookups(prepared)
        self._folder = FolderWatch.of(prepared.spec.source, prepared.home, prepared.lineage)
        self._next_folder = 0
        tables = prepared.home.streamed_locations(prepared.spec.sink.path)
        self._changes = ChangeWatch(prepared.home, prepared.lineage, tables, say)
        self._show_every_ms = prepared.spec.sink.open_sessions_every_ms if until is Until.STOPPED else None
        self._next_snapshot, self._shown = 0, (-1, -1)
        self._store, self._waking = BackgroundWork("store"), BackgroundWork("punctuation")
        self._not_woken: SessionizerError | None = None
        self._log = BoundedLog.from_environment()
        stays, rules = until is Until.STOPPED, prepared.spec.rules
        every_ms = max(prepared.spec.trigger_interval_ms, rules.emit_every_ms or 0)
        self._idle = IdleClock(rules.idle_after_ms, every_ms) if stays and rules.idle_after_ms else None
        folder = prepared.home.lineage(prepared.lineage).rehearsal
        self._rehearsal = Rehearsal(prepared.spark, folder) if stays else None
        self._lineage, self._late_told = read_lineage(prepared.home), 0

    @property
    def follows_a_quiet_source(self) -> bool:
        """Whether the driver moves the watermark while the source is quiet."""
        return self._idle is not None

    def do(self, query: StreamingQuery) -> None:
        """Do the tasks that are due now."""
        if self._is_store_due():
            self._store.start(self._look_at_store)
        if self._log is not None:
            self._log.trim()
        self._wake_quiet_stream(query)
        self._announce_timeouts()
        warnings = [each.warning for each in (self._timeouts, self._folder) if each is not None and each.warning]
        warning = "; ".join(warnings) or None
        if warning != self._heartbeat.beat.warning:
            self._heartbeat.update(warning=warning)
        is_time = self._rehearsal is not None and self._rehearsal.is_due(self._prepared.batch_log.added)
        if self._rehearsal is not None and is_time and self._heartbeat.is_caught_up(epoch_ms(), query.status):
            self._rehearsal.begin()
        self._positions.look()
        self._lookups.look()
        self._tell_of_late_backlog()

    def end(self) -> None:
        """Return when no task runs any more."""
        self._waking.end(STORE_WITHIN_S)
        self._store.start(self._changes.look_now)
        self._store.end(STORE_WITHIN_S)
        self._positions.end()
        self._lookups.end()
        self._tell_of_late_backlog()
        if self._rehearsal is not None:
            self._rehearsal.end()

    def _read_timeouts(self) -> TimeoutTable | None:
        """Read clients' timeouts before the query starts, so that its first batch has them."""
        prepared, home = self._prepared, self._prepared.home
        table = TimeoutTable.of(prepared.spark, prepared.spec, home, prepared.lineage)
        if table is not None and (found := table.look()) is not None and table.warning is not None:
            self._say(found)
        return table

    def _is_store_due(self) -> bool:
        is_folder_due = self._folder is not None and monotonic_ms() >= self._next_folder
        is_removal_due = self._removal.is_due(self._heartbeat.beat.batch_id)
        return is_folder_due or is_removal_due or self._changes.is_due or self._is_snapshot_due()

    def _look_at_store(self) -> None:
        self._removal.remove(self._heartbeat.beat.batch_id)
        if self._folder is not None and monotonic_ms() >= self._next_folder:
            self._next_folder = monotonic_ms() + FOLDER_EVERY_MS
            for line in self._folder.look():
                self._say(line)
        self._changes.look()
        if self._show_every_ms is not None and self._is_snapshot_due():
            life = self._prepared.batch_log.life
            shown = life.read, life.sessions
            with suppress(StoreUnreachable, ControlUnreachable):  # the next look asks again
                punctuation.show_open_sessions(self._punctuations)
                self._next_snapshot, self._shown = monotonic_ms() + self._show_every_ms, shown

    def _is_snapshot_due(self) -> bool:
        """Whether it is time for a snapshot of the open sessions, and rows came or sessions ended since the last."""
        life, is_time = self._prepared.batch_log.life, monotonic_ms() >= self._next_snapshot
        return self._show_every_ms is not None and is_time and self._shown != (life.read, life.sessions)

    def _announce_timeouts(self) -> None:
        if self._timeouts is None or monotonic_ms() < self._next_timeouts:
            return
        self._next_timeouts = monotonic_ms() + TIMEOUT_TABLE_EVERY_MS
        with suppress(StoreUnreachable, ControlUnreachable):  # the next look tries again
            if (line := self._timeouts.look()) is not None:
                self._say(line)

    def _tell_of_late_backlog(self) -> None:
        """Warn once in a driver's life, and only after a batch."""
        log = self._prepared.batch_log
        if self._lineage is None or log.added <= self._late_told:
            return
        self._late_told = log.added
        if (line := describe_late_backlog(self._lineage, log.first, epoch_ms())) is not None:
            self._lineage = None
            self._say(f"{line}. To read it in that order, run `{backfill_command(self._prepared.home.name)}`")

    def _wake_quiet_stream(self, query: StreamingQuery) -> None:
        if self._idle is None:
            return
        if (events_at := self._heartbeat.take_events_at()) is not None:
            self._idle.saw_events(events_at)
        self._idle.look(monotonic_ms())  # after the events: they may have come before a stop of this process
        if self._waking.is_busy:
            return
        if self._not_woken is not None:
            raise self._not_woken
        beat = self._heartbeat.beat
        caught_up = self._heartbeat.is_caught_up(epoch_ms(), query.status)
        latest_due_ms = self._prepared.open_sessions.latest_due_ms
        floor = self._idle.floor(monotonic_ms(), beat.watermark_ms, latest_due_ms=latest_due_ms, caught_up=caught_up)
        if floor is not None:
            self._waking.start(lambda: self._move_watermark(floor))

    def _move_watermark(self, floor: int) -> None:
        try:
            punctuation.move_watermark(self._punctuations, floor)
        except (StoreUnreachable, ControlUnreachable):
            pass  # the next floor is higher
        except SessionizerError as error:  # sessions would stay open for good
            self._not_woken = error


AFTER_BATCHES: Final = 10
"""Batches before the rehearsal: the first have code of their own to compile, and a driver that ends soon needs none."""


class Rehearsal:
    """A rehearsal that happens once, on a thread of its own, with a table in ``folder`` that no other process knows."""

    def __init__(self, spark: SparkSession, folder: DataPath) -> None:
        self._spark, self._folder = spark, folder
        self._work, self._is_begun = BackgroundWork("rehearsal"), False

    def is_due(self, batches: int) -> bool:
        """Whether it is time, after so many ``batches``. A driver with waiting events lets it wait, too."""
        return not self._is_begun and batches >= AFTER_BATCHES

    def begin(self) -> None:
        """Start the rehearsal, at most once."""
        self._is_begun = True
        self._work.start(self._checkpoint)

    def end(self) -> None:
        """Return when no part of it runs, because Spark must not be stopped under a job."""
        self._work.end(30.0)

    def _checkpoint(self) -> None:
        # a failure is harmless: the first real checkpoint is then as slow as without a rehearsal
        with suppress(SessionizerError, PySparkException, JavaError, JavaUnreachable, OSError):
            remove_tree(self._folder)  # of a driver that was killed meanwhile
            rehearse_checkpoint(self._spark, uri_of(self._folder))
            remove_tree(self._folder)


def rehearse_checkpoint(spark: SparkSession, location: str) -> None:
    """Make a table of one row at ``location``, each of whose commits comes with a checkpoint, and append to it."""
    shape = quarantine_shape()
    shape = replace(shape, properties={**shape.properties, "delta.checkpointInterval": "1"})
    ensure_table(spark, shape, location)
    row = spark.range(1).select(*(F.lit(None).cast(column.dataType).alias(column.name) for column in shape.columns))
    for version in (0, 1):
        write_once(row, location, Transaction("rehearsal", version), lambda: None)
