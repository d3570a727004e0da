"""The driver's heartbeat, fed by Spark's own progress events."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from sessionizer.control.history.straggler import GroupTime, Straggler, follow, partition_behind, slow_group
from sessionizer.control.lease import Lease, beats
from sessionizer.control.records.driver_records import (
    HEARTBEAT_FILE,
    Heartbeat,
    HeavyKey,
    PartitionPosition,
    Phase,
    count_unread,
    positions,
)
from sessionizer.control.status.batch_progress import NOTHING_UNDER_WAY, BatchObservation, BatchProgress
from sessionizer.core.wire import rows
from sessionizer.errors import ControlUnreachable, DiskFull, LeaseLost, UnwritablePath
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.spark.driver.batch_history import BatchHistory, group_times

if TYPE_CHECKING:
    from sessionizer.spark.sinks.write import BatchCounts


BEAT_EVERY_S: Final = 3.0


class HeartbeatWriter:
    """The driver's record of its own state. Every change is written to the control directory."""

    def __init__(self, home: StreamHome, lease: Lease) -> None:
        now = epoch_ms()
        self._home, self._lease = home, lease
        self._lock = threading.Lock()
        self._beat = Heartbeat(uid=lease.uid, at=now, started_at=now, phase=Phase.STARTING)
        self._events_at: int | None = None
        self.brought_events = False
        """Whether the last batch brought events. Refused and late rows do not count."""
        self._progress = BatchProgress()
        self._reports = 0
        self.history = BatchHistory(home)
        self.positions: tuple[PartitionPosition, ...] = ()
        """Positions in the partitions of a Kafka source after the last batch."""
        self._times: tuple[GroupTime, ...] = ()
        self._straggler: Straggler | None = None

    @property
    def reports(self) -> int:
        """Number of batches and idle triggers that Spark has reported."""
        return self._reports

    @property
    def beat(self) -> Heartbeat:
        """The last beat."""
        return self._beat

    def take_events_at(self) -> int | None:
        """Return once the time (epoch ms) of the last batch with events that count.

        None if no batch brought any since the last call.
        """
        with self._lock:
            events_at, self._events_at = self._events_at, None
            return events_at

    def is_caught_up(self, now: int, status: Mapping[str, Any]) -> bool:
        """Whether the source has nothing more that counts, by the query's ``status`` at ``now`` (epoch ms).

        A source whose rows are all refused or late has data without end, and batches may run without a pause. So a
        running batch is assumed to be like the one before, for as long as that one took.
        """
        beat = self._beat
        if not status["isTriggerActive"]:
            return not (status["isDataAvailable"] and self.brought_events)
        if self.brought_events or beat.batch_at is None or beat.batch_ms is None:
            return False
        return now - beat.batch_at <= beat.batch_ms

    def update(self, **changes: Any) -> None:
        """Beat with these fields changed.

        A driver that lost its lease is silent, because the beat is its successor's.
        """
        with self._lock, suppress(LeaseLost, UnwritablePath, DiskFull, ControlUnreachable):
            self._beat = replace(self._beat, at=epoch_ms(), **changes)
            self._lease.check()
            HEARTBEAT_FILE.of(self._home).write(self._beat)

    def note_start_progress(self, **changes: Any) -> None:
        """Beat after a step of the start, with these fields changed. On a busy machine each step may take minutes."""
        self.update(progress_at=epoch_ms(), **changes)

    def keep_beating(self, *, works: bool = False) -> AbstractContextManager[None]:
        """Return a block that the driver cannot leave, such as the start of Spark, in which it beats on.

        ``works``: the step has no batches and takes as long as it takes, so it is no start that hangs.
        """

        def beat() -> None:
            self.update(**({"phase": Phase.RUNNING, "progress_at": epoch_ms()} if works else {}))

        return beats(beat, BEAT_EVERY_S)

    def note_observation(self, observed: BatchObservation) -> None:
        """Beat after a look at the batch under way. A batch with progress has started, however long it takes."""
        self._progress = self._progress.seen(observed, epoch_ms())
        phase = self._phase(Phase.RUNNING) if observed.shows_work else self._beat.phase
        self.update(phase=phase, **self._progress.fields)
        self.history.flush(epoch_ms(), unless_recent=True)  # a long batch must not keep the hour before unwritten

    def note_written(self, counts: BatchCounts, open_sessions: OpenSessions) -> None:
        """Add the rows that a batch wrote. The next beat reports them."""
        (heaviest, held), load = open_sessions.heaviest, open_sessions.load
        self._times = group_times(counts, open_sessions.loads)
        self.history.note_written(counts, open_sessions)
        with self._lock:
            beat = self._beat
            self.brought_events = bool(counts.admitted)
            if self.brought_events:
                self._events_at = epoch_ms()
            self._beat = replace(
                beat,
                late=(beat.late or 0) + counts[rows.LATE],
                quarantined=(beat.quarantined or 0) + counts[rows.QUARANTINE],
                sessions_rows=(beat.sessions_rows or 0) + counts[rows.SESSIONS],
                sessions_version=beat.sessions_version if counts.sessions_version is None else counts.sessions_version,
                open_keys=open_sessions.total,
                heaviest_group=heaviest,
                heaviest_group_bytes=held,
                heaviest_keys=tuple(HeavyKey(key=key, group=group, events=n) for key, group, n in load.heaviest),
                open_ages=load.ages,
            )

    def note_batch(self, progress: StreamingQueryProgress) -> None:
        """Beat after a committed batch."""
        now = epoch_ms()
        self._reports += 1
        source = progress.sources[0]
        watermark = _epoch_ms(progress.eventTime.get("watermark"))
        state = progress.stateOperators[0]
        times, self._times = self._times, ()
        self._straggler = follow(self._straggler, self._slowest(progress, times, now), times)
        self.update(
            phase=self._phase(Phase.RUNNING),
            batch_id=progress.batchId,
            batch_at=now,
            batch_ms=progress.batchDuration,
            input_rows=source.numInputRows,
            rows_per_second=round(source.processedRowsPerSecond, 1),
            watermark_ms=watermark,
            watermark_lag_ms=now - watermark if watermark else None,
            state_rows=state.numRowsTotal,
            state_bytes=state.memoryUsedBytes + int(state.customMetrics.get("rocksdbSstFileSize", 0)),
            source_lag=_lag(source.metrics or {}),
            progress_at=now,
            straggler=self._straggler if self._straggler and self._straggler.is_named else None,
            **NOTHING_UNDER_WAY,
        )
        self.history.add_committed(self._beat, progress.durationMs)

    def _slowest(self, progress: StreamingQueryProgress, times: Sequence[GroupTime], now: int) -> Straggler | None:
        """Return what held up the batch, or what falls behind in its source."""
        source = progress.sources[0]
        self.positions = positions(source.endOffset, source.latestOffset)
        return slow_group(times, progress.batchDuration, now) or partition_behind(count_unread(self.positions), now)

    def note_idle(self) -> None:
        """Beat while there is nothing to do."""
        self._reports += 1
        self._straggler = None
        self.update(phase=self._phase(Phase.IDLE), progress_at=epoch_ms(), straggler=None, **NOTHING_UNDER_WAY)
        self.history.flush(epoch_ms(), unless_recent=True)

    def _phase(self, phase: Phase) -> Phase:
        return Phase.STOPPING if self._beat.phase is Phase.STOPPING else phase


class ProgressListener(StreamingQueryListener):
    """A listener that passes on Spark's events about a driver's queries."""

    def __init__(self, heartbeat: HeartbeatWriter) -> None:
        self._heartbeat = heartbeat
        self._ended = set[str]()
        self._heard = threading.Condition()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ignore it: the first beat comes with the first batch, until then the driver is starting."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report a committed batch."""
        self._heartbeat.note_batch(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Report a trigger that found nothing to do."""
        self._heartbeat.note_idle()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Note it as the last event of its query."""
        with self._heard:
            self._ended.add(str(event.runId))
            self._heard.notify_all()

    def wait_for_end(self, run_id: str, within_s: float) -> None:
        """Wait for the last event of an ended query, but no longer than ``within_s``.

        Spark reports a little later than the query ends. If this process is gone by then, Spark prints a Java stack
        trace for each event, and the last batch is in no history.
        """
        with self._heard:
            self._heard.wait_for(lambda: run_id in self._ended, within_s)


def _epoch_ms(instant: str | None) -> int | None:
    return None if instant is None else int(datetime.fromisoformat(instant).timestamp() * 1000) or None


def _lag(metrics: dict[str, str]) -> int | None:
    """Return Kafka's own measure: events behind, in the partition furthest behind."""
    behind = metrics.get("maxOffsetsBehindLatest")
    return None if behind is None else int(float(behind))
