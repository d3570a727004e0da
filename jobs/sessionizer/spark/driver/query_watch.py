"""The watch over a running query: it beats, stops the query at a batch boundary, or cuts it off.

Within one JVM Spark reports nothing of a task before it ends: executors send their counts only to another JVM. So the
CPU time that the tasks of a local Spark have used is observed, too.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import psutil  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sessionizer.control.lease import LeaseWatch
from sessionizer.control.records.driver_records import Phase
from sessionizer.control.status.batch_progress import BatchObservation, StageObservation
from sessionizer.errors import SessionizerError, SourceUnreachable
from sessionizer.home.clock import epoch_ms
from sessionizer.home.local_files import require_room
from sessionizer.home.roots import is_local
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.driver.heartbeat_writer import BEAT_EVERY_S, HeartbeatWriter, ProgressListener
from sessionizer.spark.driver.prepared_query import AWAY, missing_folder
from sessionizer.spark.internals.java_errors import JavaUnreachable
from sessionizer.spark.internals.task_counts import records_of_stage
from sessionizer.stream_spec.document.source import Source

POLL_S: Final = 0.25
POLL_OF_A_STORE_S: Final = 1.0
"""Seconds between two looks at records in a store, because each look is a few requests, which may be paid for."""
HEARD_WITHIN_S: Final = 5.0
"""Seconds that an ended query's last events may take."""
STUCK_AFTER_MS: Final = 600_000
"""A driver that is to stop waits no longer than this (ms) for a batch without progress."""
GONE_AFTER_S: Final = 30.0
"""Seconds after which a missing folder ends the driver. A mount may be away for a moment."""
_TASK_THREADS: Final = ("Executor task l", "stdout writer f", "Writer for pyth")
"""Names of the threads that run a task or feed its Python worker, as Linux cuts them. Others have no names."""


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
    """Return the JVM that this Python speaks to: its parent under spark-submit, else its child. None without one."""
    try:
        ours = psutil.Process()
        near = [ours.parent(), *ours.children(recursive=True)]
        # this process may have started other JVMs
        jvms = (one for one in near if one is not None and one.name() in {"java", "java.exe"})
        submit = "org.apache.spark.deploy.SparkSubmit"
        return next((jvm.pid for jvm in jvms if any(submit in word for word in jvm.cmdline())), None)
    except psutil.Error:
        return None


def _name(pid: int, thread: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text().rstrip("\n")
    return ""


def _seconds(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0  # it is gone


def observe_batch(spark: SparkSession, query: StreamingQuery, batch_id: int | None, batches: int) -> BatchObservation:
    """Observe ``query`` as it is now. ``batch_id`` is the batch that Spark has handed to us."""
    status, tracker = query.status, spark.sparkContext.statusTracker()
    if not status["isTriggerActive"] and query.isActive:
        return BatchObservation(waits=True, batches=batches)
    # Spark groups the jobs of a query under the id of its run
    jobs = tuple(sorted({*tracker.getActiveJobsIds()} & {*tracker.getJobIdsForGroup(str(query.runId))}))
    # elsewhere executors report the records that their tasks have taken
    jvm = jvm_of_this_process() if jobs and (spark.sparkContext.master or "").startswith("local") else None
    return BatchObservation(
        batch_id=batch_id,
        doing=str(status["message"]),
        batches=batches,
        jobs=jobs,
        stages=tuple(_stages(spark, jobs)),
        task_seconds=0 if jvm is None else task_seconds(jvm),
    )


def _stages(spark: SparkSession, jobs: tuple[int, ...]) -> Iterator[StageObservation]:
    """Yield the stages of ``jobs``, with the records that tasks have taken, running ones included.

    The public tracker counts finished tasks only. A stage whose output exists already has no tasks and is unknown to
    Spark. Executors report every ten seconds (``spark.executor.heartbeatInterval``), the one of a local Spark does not.
    """
    tracker = spark.sparkContext.statusTracker()
    for job in filter(None, map(tracker.getJobInfo, jobs)):
        for stage_id in sorted(job.stageIds):
            if (stage := tracker.getStageInfo(stage_id)) is not None:
                seen = StageObservation(stage_id, stage.numTasks, stage.numCompletedTasks, stage.numFailedTasks)
                records = records_of_stage(spark, stage_id)
                yield seen if records is None else replace(seen, rows_read=records[0], records=records)


class QueryWatch:
    """A watch over the driver's queries, one after the other, and over the disks that they write to."""

    def __init__(
        self, heartbeat: HeartbeatWriter, gate: StopGate, lease: LeaseWatch, home: StreamHome, source: Source
    ) -> None:
        self._heartbeat, self._gate, self._lease = heartbeat, gate, lease
        self._home, self._source = home, source
        self._gone_since: float | None = None
        """The time at which the folder of the source was found missing, None while it is there (s, monotonic)."""
        written = (home.control_base, home.data, Path(tempfile.gettempdir()))
        self._disks = [folder for folder in written if isinstance(folder, Path)]
        self.poll_s = POLL_S if is_local(home.control_base) else POLL_OF_A_STORE_S
        self._next_look = 0.0

    def look(self, spark: SparkSession, query: StreamingQuery) -> None:
        """Observe the batch under way and beat, every few seconds at most, however often it is called.

        Raises DiskFull, because on a full disk a batch may wait for its state instead of failing. Raises
        SourceUnreachable if the source's folder has gone, because a query without files looks like an idle one.
        """
        if time.monotonic() < self._next_look:
            return
        self._heartbeat.note_observation(observe_batch(spark, query, self._gate.batch_id, self._heartbeat.reports))
        require_room(self._disks)
        self.require_source_folder()
        self._next_look = time.monotonic() + BEAT_EVERY_S

    def require_source_folder(self) -> None:
        """Raise SourceUnreachable if the folder has been missing for a while. Spark takes a missing one for empty."""
        folder, now = missing_folder(self._home, self._source), time.monotonic()
        if folder is None:
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = now
        elif now - self._gone_since >= GONE_AFTER_S:
            raise SourceUnreachable(folder, AWAY)

    def stop(self, spark: SparkSession, query: StreamingQuery, say: Callable[[str], None]) -> None:
        """End at a batch boundary: let the running batch commit, start no other. Raises LeaseLost.

        A batch with progress is waited for. Its written rows are committed a moment later: a query that is stopped in
        between runs the batch again.
        """
        self._heartbeat.update(phase=Phase.STOPPING)
        self._gate.closed = True
        while query.isActive and query.status["isTriggerActive"]:
            self._lease.look()
            self.look(spark, query)
            if epoch_ms() - (self._heartbeat.beat.progress_at or 0) > STUCK_AFTER_MS:
                say("the running batch makes no progress, so it is cancelled and will be retried")
                break
            time.sleep(POLL_S)
        query.stop()


def cut_off(query: StreamingQuery, listener: ProgressListener) -> bool:
    """End a query, with its last events heard, and return whether it has ended in time. Never raises."""
    try:
        run_id = str(query.runId)
        query.stop()
    except PySparkException:
        return False  # it did not end in time
    except (JavaUnreachable, OSError):
        return True  # there is no JVM any more
    listener.wait_for_end(run_id, HEARD_WITHIN_S)
    return True


REFUSED_BATCH: Final = "stop requested: stopped before the next batch"


class GateClosed(Exception):
    """Raised at the start of a batch that must not run."""


class StopGate:
    """A gate that lets batches through one at a time until it is closed. It asks ``must_stop`` before each."""

    def __init__(self, must_stop: Callable[[], bool]) -> None:
        self._must_stop = must_stop
        self._in_batch = threading.Lock()
        self.closed = False
        """Whether no further batch will run. A running one is finished."""
        self.refused = False
        """Whether the gate refused a batch, which ends its query. That end is no failure."""
        self.batch_id: int | None = None
        """Number of the running batch, None while there is none, or one is only planned."""
        self.failure: SessionizerError | None = None
        """Error of ours that ended a batch, because Spark passes on only its text."""

    @contextmanager
    def batch(self, batch_id: int) -> Iterator[None]:
        """Hold the gate for one batch. Raises GateClosed if no batch may start."""
        with self._in_batch:
            if self.closed or self._must_stop():
                self.closed = self.refused = True
                raise GateClosed
            self.batch_id = batch_id
            try:
                yield
            except SessionizerError as error:
                self.failure = error
                raise
            finally:
                self.batch_id = None


class StopSignals:
    """Handler of both signals while it is entered: they set ``received``, which the driver reads between two steps."""

    received = False

    def __enter__(self) -> Self:
        """Handle the signals until the exit."""
        self.take_over()
        return self

    def take_over(self) -> None:
        """Handle them (again), because Spark's start installs a SIGINT handler of its own, which cancels all jobs."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._receive)

    def __exit__(self, *_: object) -> None:
        """Give them back to Python."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _receive(self, _number: int, _frame: object) -> None:
        self.received = True
