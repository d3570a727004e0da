"""The driver's heartbeat and history, fed by what batches wrote and by Spark's own progress events."""

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from pyspark.sql.streaming import listener

from sessionizer.control.history.files import HistoryWriter
from sessionizer.control.history.sample import GroupTime, Sample, Straggler, follow, partition_behind, slow_group
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
from sessionizer.core.key_group.group_load import NO_LOAD, GroupLoad
from sessionizer.core.wire import rows
from sessionizer.errors import ControlUnreachable, DiskFull, LeaseLost, UnwritablePath
from sessionizer.home.clock import epoch_ms, monotonic_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.spark.sinks.write import BatchCounts

BEAT_EVERY_S: Final = 3.0
_DURATIONS: Final = {
    "plan": ("latestOffset", "getOffset", "getBatch", "queryPlanning", "walCommit"),
    "commit": ("commitOffsets", "commitBatch"),
}
"""Names of Spark's durations that make up a phase of our history."""


def group_times(counts: BatchCounts, loads: Mapping[int, GroupLoad]) -> tuple[GroupTime, ...]:
    """Return the time of each key group in a batch, given the ``loads`` of all groups after it."""
    took, merged, found = Counter[int](), {group for group, report in counts.open_in_groups if report.merged}, []
    for group, report in counts.open_in_groups:  # a group may have been called twice
        took[group] += report.load.took_ms
    for group, ms in took.items():
        load = loads.get(group, NO_LOAD)
        largest: list[tuple[str | None, int]] = [*load.heaviest, (None, 0), (None, 0)]
        (key, events), (_, next_events) = largest[:2]
        # of fewer than 100 sessions the p99 is the largest one itself
        others = min(next_events, load.p99_events or 0)
        found.append(
            GroupTime(group=group, took_ms=ms, key=key, key_events=events, others_events=others, merged=group in merged)
        )
    return tuple(found)


class HeartbeatWriter:
    """The driver's record of its own state. Every change is written to the control directory."""

    def __init__(self, home: StreamHome, lease: Lease) -> None:
        now = epoch_ms()
        self._home, self._lease = home, lease
        self._lock = threading.Lock()
        self.beat = Heartbeat(uid=lease.uid, at=now, started_at=now, phase=Phase.STARTING)
        self._events_at: int | None = None
        self.brought_events = False
        """Whether the last batch brought events. Refused and late rows do not count."""
        self._progress = BatchProgress()
        self.reports = 0
        """Number of batches and idle triggers that Spark has reported."""
        self.history = HistoryWriter(home)
        self._written: dict[int, tuple[Sample, tuple[GroupTime, ...]]] = {}
        """Batches that were written and whose commit Spark has not reported yet: while a beat waits, there are more."""
        self._ended_at: int | None = None
        """End of the last batch (epoch ms)."""
        self.positions: tuple[PartitionPosition, ...] = ()
        """Positions in the partitions of a Kafka source after the last batch."""
        self._straggler: Straggler | None = None

    def take_events_at(self) -> int | None:
        """Return once the ``monotonic_ms`` of the last batch with events that count. None if there was none since."""
        with self._lock:
            events_at, self._events_at = self._events_at, None
            return events_at

    def is_caught_up(self, now: int, status: Mapping[str, Any]) -> bool:
        """Whether the source has nothing more that counts, by the query's ``status`` at ``now`` (epoch ms).

        A source whose rows are all refused or late has data without end, and batches may run without a pause. So a
        running batch is assumed to be like the one before, for as long as that one took.
        """
        beat = self.beat
        if not status["isTriggerActive"]:
            return not (status["isDataAvailable"] and self.brought_events)
        if self.brought_events or beat.batch_at is None or beat.batch_ms is None:
            return False
        return now - beat.batch_at <= beat.batch_ms

    def update(self, **changes: Any) -> None:
        """Beat with these fields changed, unless the lease is lost, because the beat is the successor's then."""
        with self._lock, suppress(LeaseLost, UnwritablePath, DiskFull, ControlUnreachable):
            self.beat = replace(self.beat, at=epoch_ms(), **changes)
            self._lease.check()
            HEARTBEAT_FILE.of(self._home).write(self.beat)

    def note_start_progress(self, **changes: Any) -> None:
        """Beat after a step of the start, with these fields changed. On a busy machine each step may take minutes."""
        self.update(progress_at=epoch_ms(), **changes)

    def keep_beating(self, *, works: bool = False) -> AbstractContextManager[None]:
        """Beat on in a block such as the start of Spark. With ``works`` it may take as long as it takes."""

        def beat() -> None:
            self.update(**({"phase": Phase.RUNNING, "progress_at": epoch_ms()} if works else {}))

        return beats(beat, BEAT_EVERY_S)

    def note_observation(self, observed: BatchObservation) -> None:
        """Beat after a look at the batch under way. A batch with progress has started, however long it takes."""
        self._progress = self._progress.seen(observed, epoch_ms())
        phase = self._phase(Phase.RUNNING) if observed.shows_work else self.beat.phase
        self.update(phase=phase, **self._progress.fields)
        self.history.flush(epoch_ms(), unless_recent=True)  # a long batch must not keep the hour before unwritten

    def note_written(self, batch_id: int, counts: BatchCounts, open_sessions: OpenSessions) -> None:
        """Add the rows that a batch wrote. The next beat reports them."""
        (heaviest, held), load = open_sessions.heaviest, open_sessions.load
        key, _, key_events = load.heaviest[0] if load.heaviest else (None, None, None)
        written = Sample(
            at=0,
            phases={"evaluate": counts.evaluated_ms, "write": counts.written_ms},
            open=open_sessions.total,
            sessions=counts[rows.SESSIONS],
            late=counts[rows.LATE],
            refused=counts[rows.QUARANTINE],
            group=heaviest,
            group_bytes=held,
            group_p99_bytes=load.group_p99_bytes,
            closed=counts.closed,
            key=key,
            key_events=key_events,
            key_p99_events=load.p99_events,
        )
        with self._lock:
            beat, version = self.beat, counts.versions.get(rows.SESSIONS)
            self._written[batch_id] = written, group_times(counts, open_sessions.loads)
            self.brought_events = bool(counts.admitted)
            if self.brought_events:
                self._events_at = monotonic_ms()
            self.beat = replace(
                beat,
                late=(beat.late or 0) + counts[rows.LATE],
                quarantined=(beat.quarantined or 0) + counts[rows.QUARANTINE],
                sessions_rows=(beat.sessions_rows or 0) + counts[rows.SESSIONS],
                sessions_version=beat.sessions_version if version is None else version,
                open_keys=open_sessions.total,
                heaviest_group=heaviest,
                heaviest_group_bytes=held,
                heaviest_keys=tuple(HeavyKey(key=key, group=group, events=n) for key, group, n in load.heaviest),
                open_ages=load.ages,
            )

    def note_batch(self, progress: listener.StreamingQueryProgress) -> None:
        """Beat after a committed batch."""
        now = epoch_ms()
        self.reports += 1
        source = progress.sources[0]
        told, behind = progress.eventTime.get("watermark"), (source.metrics or {}).get("maxOffsetsBehindLatest")
        watermark = None if told is None else int(datetime.fromisoformat(told).timestamp() * 1000) or None
        state = progress.stateOperators[0]
        with self._lock:
            written, times = self._written.pop(progress.batchId, (Sample(at=0), ()))
            self._written = {batch: kept for batch, kept in self._written.items() if batch > progress.batchId}
        self.positions = positions(source.endOffset, source.latestOffset)
        slow = slow_group(times, progress.batchDuration, now) or partition_behind(count_unread(self.positions), now)
        self._straggler = follow(self._straggler, slow, times)
        self.update(
            phase=self._phase(Phase.RUNNING),
            batch_id=progress.batchId,
            batch_at=now,
            batch_ms=progress.batchDuration,
            input_rows=source.numInputRows,
            rows_per_second=round(source.processedRowsPerSecond, 1),
            watermark_ms=watermark,
            watermark_lag_ms=now - watermark if watermark else None,
            state_bytes=state.memoryUsedBytes + int(state.customMetrics.get("rocksdbSstFileSize", 0)),
            source_lag=None if behind is None else int(float(behind)),  # in the partition furthest behind
            progress_at=now,
            straggler=self._straggler if self._straggler and self._straggler.is_named else None,
            **NOTHING_UNDER_WAY,
        )
        self._add_sample(written, self.beat, progress.durationMs)

    def _add_sample(self, written: Sample, beat: Heartbeat, spark_ms: Mapping[str, int]) -> None:
        ended_at, self._ended_at = self._ended_at, beat.at
        batch_ms = beat.batch_ms or 0
        phases = {phase: sum(spark_ms.get(name, 0) for name in names) for phase, names in _DURATIONS.items()}
        batch = replace(
            written,
            at=beat.at,
            lineage=beat.lineage,
            batch_id=beat.batch_id,
            batches=1,
            rows=beat.input_rows or 0,
            batch_ms=batch_ms,
            longest_ms=batch_ms,
            waited_ms=0 if ended_at is None else max(0, beat.at - batch_ms - ended_at),
            straggler=beat.straggler.label if beat.straggler else None,
            phases={**written.phases, **phases},
            lag_ms=beat.watermark_lag_ms,
            source_lag=beat.source_lag,
            watermark_ms=beat.watermark_ms,
            state_bytes=beat.state_bytes,
        )
        self.history.add(batch)

    def note_idle(self) -> None:
        """Beat while there is nothing to do."""
        self.reports += 1
        self._straggler = None
        self.update(phase=self._phase(Phase.IDLE), progress_at=epoch_ms(), straggler=None, **NOTHING_UNDER_WAY)
        self.history.flush(epoch_ms(), unless_recent=True)

    def _phase(self, phase: Phase) -> Phase:
        return Phase.STOPPING if self.beat.phase is Phase.STOPPING else phase


class ProgressListener(listener.StreamingQueryListener):
    """A listener that passes on Spark's events about a driver's queries."""

    def __init__(self, heartbeat: HeartbeatWriter) -> None:
        self._heartbeat = heartbeat
        self._ended = set[str]()
        self._heard = threading.Condition()

    def onQueryStarted(self, event: listener.QueryStartedEvent) -> None:
        """Ignore it: the first beat comes with the first batch, until then the driver is starting."""

    def onQueryProgress(self, event: listener.QueryProgressEvent) -> None:
        """Report a committed batch."""
        self._heartbeat.note_batch(event.progress)

    def onQueryIdle(self, event: listener.QueryIdleEvent) -> None:
        """Report a trigger that found nothing to do."""
        self._heartbeat.note_idle()

    def onQueryTerminated(self, event: listener.QueryTerminatedEvent) -> None:
        """Note it as the last event of its query."""
        with self._heard:
            self._ended.add(str(event.runId))
            self._heard.notify_all()

    def wait_for_end(self, run_id: str, within_s: float) -> None:
        """Wait for an ended query's last event. Without it the last batch is in no history, and Spark prints stacks."""
        with self._heard:
            self._heard.wait_for(lambda: run_id in self._ended, within_s)
