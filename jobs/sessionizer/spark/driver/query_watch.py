"""The watch over a running query: it beats, stops the query at a batch boundary, or cuts it off."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sessionizer.control.lease import LeaseWatch
from sessionizer.control.records.driver_records import Phase
from sessionizer.errors import SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.local_files import require_room
from sessionizer.home.roots import is_local
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.driver.batch_files import FolderCheck
from sessionizer.spark.driver.batch_history import observe_batch
from sessionizer.spark.driver.heartbeat_writer import BEAT_EVERY_S, HeartbeatWriter, ProgressListener
from sessionizer.spark.internals.java_errors import JavaUnreachable
from sessionizer.stream_spec.document.source import Source

POLL_S: Final = 0.25
POLL_OF_A_STORE_S: Final = 1.0
"""Seconds between two looks at records in a store, because each look is a few requests, which may be paid for."""
HEARD_WITHIN_S: Final = 5.0
"""Seconds that an ended query's last events may take."""
STUCK_AFTER_MS: Final = 600_000
"""A driver that is to stop waits no longer than this (ms) for a batch without progress."""


class QueryWatch:
    """A watch over the driver's queries, one after the other, and over the disks that they write to."""

    def __init__(
        self, heartbeat: HeartbeatWriter, gate: StopGate, lease: LeaseWatch, home: StreamHome, source: Source
    ) -> None:
        self._heartbeat, self._gate, self._lease = heartbeat, gate, lease
        self._folder = FolderCheck(home, source)
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
        self._folder.look()
        self._next_look = time.monotonic() + BEAT_EVERY_S

    def stop(self, spark: SparkSession, query: StreamingQuery, say: Callable[[str], None]) -> None:
        """End at a batch boundary: let the running batch commit, start no other. Raises LeaseLost.

        A batch with progress is waited for. Its written rows are committed a moment later: a query that is stopped in
        between runs the batch again.
        """
        self._heartbeat.update(phase=Phase.STOPPING)
        self._gate.close()
        while query.isActive and query.status["isTriggerActive"]:
            self._lease.look()
            self.look(spark, query)
            if epoch_ms() - (self._heartbeat.beat.progress_at or 0) > STUCK_AFTER_MS:
                say("the running batch makes no progress, so it is cancelled and will be retried")
                break
            time.sleep(POLL_S)
        query.stop()


def cut_off(query: StreamingQuery, listener: ProgressListener) -> bool:
    """End a query at any point, and return whether it has ended (``spark.sql.streaming.stopTimeout``). Never raises.

    The ``listener`` has all events of an ended query then, unless Spark is slow to send them.
    """
    try:
        run_id = str(query.runId)
        query.stop()
    except PySparkException:
        return False  # it did not end in time
    except (JavaUnreachable, OSError):
        return True  # there is no JVM any more
    listener.wait_for_end(run_id, HEARD_WITHIN_S)
    return True


REFUSED_BATCH: Final = (
    "stop requested: stopped before the next batch. Spark logs a GateClosed error for it, which is expected"
)


class GateClosed(Exception):
    """Raised at the start of a batch that must not run."""


class StopGate:
    """A gate that lets batches through one at a time until it is closed. It asks ``must_stop`` before each."""

    def __init__(self, must_stop: Callable[[], bool]) -> None:
        self._must_stop = must_stop
        self._in_batch = threading.Lock()
        self._closed = threading.Event()
        self._refused = threading.Event()
        self._batch_id: int | None = None
        self._failure: SessionizerError | None = None

    @property
    def failure(self) -> SessionizerError | None:
        """Error of ours that ended a batch, because Spark passes on only its text."""
        return self._failure

    @property
    def closed(self) -> bool:
        """Whether no further batch will run."""
        return self._closed.is_set()

    @property
    def refused(self) -> bool:
        """Whether the gate refused a batch, which ends its query. That end is no failure."""
        return self._refused.is_set()

    @property
    def batch_id(self) -> int | None:
        """Number of the running batch, None while there is none, or one is only planned."""
        return self._batch_id

    @contextmanager
    def batch(self, batch_id: int) -> Iterator[None]:
        """Hold the gate for one batch. Raises GateClosed if no batch may start."""
        with self._in_batch:
            if self.closed or self._must_stop():
                self._closed.set()
                self._refused.set()
                raise GateClosed
            self._batch_id = batch_id
            try:
                yield
            except SessionizerError as error:
                self._failure = error
                raise
            finally:
                self._batch_id = None

    def close(self) -> None:
        """Let no further batch start. A running one is finished."""
        self._closed.set()


class StopSignals:
    """Handler of both signals while it is entered: they only set ``received``.

    The driver reads it between two steps.
    """

    def __init__(self) -> None:
        self.received = False

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
