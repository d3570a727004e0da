"""Batches of a driver as samples of its history: the rows that a batch wrote, and Spark's report of its commit.

CPU time that the tasks of a local Spark have used.

Within one JVM Spark reports nothing of a task before it ends: executors send their counts only to another JVM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil  # type: ignore[import-untyped]

from sessionizer.control.history.files import HistoryWriter
from sessionizer.control.history.sample import Sample
from sessionizer.control.history.straggler import GroupTime
from sessionizer.control.records.driver_records import Heartbeat
from sessionizer.control.status.batch_progress import BatchObservation, StageObservation
from sessionizer.core.key_group.group_load import NO_LOAD, GroupLoad
from sessionizer.core.wire import rows
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.spark.internals.task_counts import records_of_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from sessionizer.spark.sinks.write import BatchCounts


_PLANNING: Final = ("latestOffset", "getOffset", "getBatch", "queryPlanning", "walCommit")
_COMMITTING: Final = ("commitOffsets", "commitBatch")
"""Names of Spark's durations that make up a phase of our history."""


class BatchHistory(HistoryWriter):
    """A writer that makes one sample of each batch, from its figures before and after the commit."""

    def __init__(self, home: StreamHome) -> None:
        super().__init__(home)
        self._written: Sample | None = None
        """The batch that was written and whose commit Spark has not reported yet."""
        self._ended_at: int | None = None
        """End of the last batch (epoch ms)."""

    def note_written(self, counts: BatchCounts, open_sessions: OpenSessions) -> None:
        """Keep the figures of a batch whose tables are written, until its commit."""
        (heaviest, held), load = open_sessions.heaviest, open_sessions.load
        key, _, key_events = load.heaviest[0] if load.heaviest else (None, None, None)
        self._written = Sample(
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

    def add_committed(self, beat: Heartbeat, spark_ms: Mapping[str, int]) -> None:
        """Add the batch that the ``beat`` tells of. ``spark_ms`` are Spark's own durations."""
        written = self._written or Sample(at=0)
        ended_at, self._written, self._ended_at = self._ended_at, None, beat.at
        batch_ms = beat.batch_ms or 0
        phases = {
            "plan": sum(spark_ms.get(name, 0) for name in _PLANNING),
            "commit": sum(spark_ms.get(name, 0) for name in _COMMITTING),
        }
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
        self.add(batch)


def group_times(counts: BatchCounts, loads: Mapping[int, GroupLoad]) -> tuple[GroupTime, ...]:
    """Return the time of each key group in a batch, given the ``loads`` of all groups after it.

    A group may have been called twice.
    """
    took, merged = Counter[int](), set[int]()
    for group, report in counts.open_in_groups:
        took[group] += report.load.took_ms
        if report.merged:
            merged.add(group)
    return tuple(
        _group_time(loads.get(group, NO_LOAD), group, ms, merged=group in merged) for group, ms in took.items()
    )


def _group_time(load: GroupLoad, group: int, took_ms: int, *, merged: bool) -> GroupTime:
    largest: list[tuple[str | None, int]] = [*load.heaviest, (None, 0), (None, 0)]
    (key, events), (_, next_events) = largest[:2]
    # of fewer than 100 sessions the p99 is the largest one itself
    others = min(next_events, load.p99_events or 0)
    return GroupTime(group=group, took_ms=took_ms, key=key, key_events=events, others_events=others, merged=merged)


_TASK_THREADS: Final = ("Executor task l", "stdout writer f", "Writer for pyth")
"""Names, as Linux cuts them, of the threads that run a task or feed its Python worker.

Elsewhere threads have no names.
"""
_JAVA: Final = ("java", "java.exe")
_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"


def task_seconds(jvm_pid: int) -> int:
    """Return whole seconds of processor time of the JVM's running tasks: their threads, and Python workers."""
    try:
        jvm = psutil.Process(jvm_pid)
        threads = [thread for thread in jvm.threads() if _name(jvm_pid, thread.id) in _TASK_THREADS]
        workers = jvm.children(recursive=True)
    except psutil.Error:
        return 0
    return int(sum(thread.user_time + thread.system_time for thread in threads) + sum(map(_seconds, workers)))


def jvm_of_this_process() -> int | None:
    """Return the JVM that this Python speaks to: its parent under spark-submit, else its child.

    None if neither is a JVM.
    """
    try:
        ours = psutil.Process()
        near = [ours.parent(), *ours.children(recursive=True)]
        return next((one.pid for one in near if one is not None and _runs_spark(one)), None)
    except psutil.Error:
        return None


def _runs_spark(process: psutil.Process) -> bool:
    """Tell the JVM of Spark from other JVMs that this process may have started."""
    return process.name() in _JAVA and any(_SUBMIT in word for word in process.cmdline())


def _name(pid: int, thread: int) -> str:
    """Read the name of a thread, which psutil does not know."""
    try:
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text().rstrip("\n")
    except OSError:
        return ""


def _seconds(process: psutil.Process) -> float:
    """Return user and system time of a process (s), 0 if it is gone."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def observe_batch(spark: SparkSession, query: StreamingQuery, batch_id: int | None, batches: int) -> BatchObservation:
    """Observe ``query`` as it is now. ``batch_id`` is the batch that Spark has handed to us."""
    status = query.status
    if not status["isTriggerActive"] and query.isActive:
        return BatchObservation(waits=True, batches=batches)
    jobs = _jobs(spark, str(query.runId))
    return BatchObservation(
        batch_id=batch_id,
        doing=str(status["message"]),
        batches=batches,
        jobs=jobs,
        stages=tuple(_stages(spark, jobs)),
        task_seconds=_task_seconds(spark) if jobs else 0,
    )


def _task_seconds(spark: SparkSession) -> int:
    """Return the task seconds of a local Spark, else 0.

    Elsewhere executors report the records that their tasks have taken.
    """
    if not (spark.sparkContext.master or "").startswith("local"):
        return 0
    jvm = jvm_of_this_process()
    return 0 if jvm is None else task_seconds(jvm)


def _jobs(spark: SparkSession, run_id: str) -> tuple[int, ...]:
    """Return the query's jobs under way. Spark groups them under the id of its run. Jobs of others do not count."""
    tracker = spark.sparkContext.statusTracker()
    return tuple(sorted({*tracker.getActiveJobsIds()} & {*tracker.getJobIdsForGroup(run_id)}))


def _stages(spark: SparkSession, jobs: tuple[int, ...]) -> Iterator[StageObservation]:
    """Yield the stages of ``jobs``. A stage whose output exists already has no tasks and is unknown to Spark."""
    tracker = spark.sparkContext.statusTracker()
    for job_id in jobs:
        job = tracker.getJobInfo(job_id)
        for stage_id in sorted(job.stageIds) if job else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                seen = StageObservation(stage_id, stage.numTasks, stage.numCompletedTasks, stage.numFailedTasks)
                yield _add_records(spark, seen)


def _add_records(spark: SparkSession, stage: StageObservation) -> StageObservation:
    """Add the records that its tasks have taken, running ones included. The public tracker counts finished tasks only.

    Executors report every ten seconds (``spark.executor.heartbeatInterval``), the one of a local Spark does not.
    """
    records = records_of_stage(spark, stage.stage_id)
    return stage if records is None else replace(stage, rows_read=records[0], records=records)
