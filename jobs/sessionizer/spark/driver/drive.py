"""The driver: the process that owns a stream's lease and runs its query until told to stop.

Its contract (design §6): it refuses to start without the lease, beats every few seconds, stops at a batch boundary when
asked to, writes nothing once the lease is lost, and leaves an exit record however it ends, after the query's own end.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from sessionizer.control.failed_exit import record_failure, record_false_start
from sessionizer.control.lease.lease import acquire
from sessionizer.control.lease.watch import LeaseWatch
from sessionizer.control.records.exit_record import ExitRecord, Outcome, write_exit
from sessionizer.control.records.heartbeat import Phase
from sessionizer.control.records.stop_marker import stop_requested
from sessionizer.control.status.progress_line import ProgressTeller, progress_line
from sessionizer.core.definition.idleness import IdleClock
from sessionizer.core.definition.rules import TimeMode
from sessionizer.deployment.running_spec import choose_spec, new_record, note_spec
from sessionizer.errors import LeaseHeld
from sessionizer.home.atomic_file import TEMPORARY_SUFFIX
from sessionizer.home.bounded_log import BoundedLog
from sessionizer.home.clock import epoch_ms
from sessionizer.home.identity import owner_name
from sessionizer.home.room import Reserve
from sessionizer.home.stream_home import StreamHome
from sessionizer.home.table_places import table_locations
from sessionizer.lineage.active import active_lineage, start_lineage
from sessionizer.lineage.drained import begin_drain, end_drain, read_drain, require_not_drained
from sessionizer.spark.driver.continuity import require_continuity
from sessionizer.spark.driver.gate import BatchGate
from sessionizer.spark.driver.open_sessions import OpenSessions
from sessionizer.spark.driver.python_start import python_starting
from sessionizer.spark.driver.query_watch import POLL_S, QueryWatch, cut_off
from sessionizer.spark.driver.run import Run
from sessionizer.spark.driver.stop_signals import StopSignals
from sessionizer.spark.driver.until import Until
from sessionizer.spark.driver.vital_signs import ProgressListener, VitalSigns
from sessionizer.spark.failures.query_failure import classified
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.ingest.hidden_files import files_passed_over
from sessionizer.spark.ingest.kept_types import remember_types, require_readable_state
from sessionizer.spark.ingest.source import check_reachable
from sessionizer.spark.ingest.taken_punctuations import TakenPunctuations
from sessionizer.spark.ingest.timeout_table import TimeoutAnnouncer, TimeoutTable
from sessionizer.spark.ingest.unreadable import UnreadableFiles
from sessionizer.spark.session import spark_session
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.sinks.table_owner import claim_tables, require_ours
from sessionizer.spark.sinks.table_shapes import STREAMED
from sessionizer.spark.sinks.tables import ensure_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from sessionizer.control.lease.lease import Lease
    from sessionizer.deployment.running_spec import RunningSpec
    from sessionizer.spark.sinks.examine import Examined
    from sessionizer.spark.sinks.table_shapes import TableShape
    from sessionizer.stream_spec.loading.spec_file import SpecFile

ANNOUNCED = (
    "when it has read what there is now, every session is closed for good and the stream is over; "
    "to go on another time, stop it now and use --until caught-up"
)
TIMEOUT_TABLE_EVERY_MS = 5_000


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """``master`` is for a program started as plain Python; under spark-submit it is None.

    ``progress_every_s``: at most one line about a batch in so many seconds. ``apply``: what the file says is wanted,
    though the lineage runs by another spec.
    """

    platform_home: Path
    uid: str
    until: Until = Until.STOPPED
    master: str | None = None
    progress_every_s: float = 10.0
    apply: bool = False


def drive(file: SpecFile, options: DriverOptions, say: Callable[[str], None]) -> ExitRecord:
    """Run the stream; returns how it ended. Raises what kept it from starting or running on, after recording it.

    ``say`` gets one line per thing a person would want to know.
    """
    home = StreamHome.of(options.platform_home, file.name)
    home.prepare()
    lease = _acquired(home, options.uid, say)
    reserve = Reserve(home.control / f".reserve.{lease.uid}{TEMPORARY_SUFFIX}")
    reserve.take()
    driver: _Driver | None = None
    try:
        with StopSignals() as signals:
            require_not_drained(home)
            running = choose_spec(home, file, apply=options.apply)
            driver = _Driver(running, options, home, lease, signals, say)
            outcome, batch_id = driver.run()
    except BaseException as error:
        cause = classified(file.name, error) if isinstance(error, Exception) else error
        if driver is None or driver.query_has_ended():
            reserve.give_up()
            record_failure(home, lease.uid, cause)
            lease.release()
        else:
            # a record would free the lease: only the end of this process ends what the query may still do
            say("the query did not end in time: this driver leaves no exit record")
        raise cause from error
    reserve.give_up()
    record = ExitRecord(uid=options.uid, at=epoch_ms(), outcome=outcome, batch_id=batch_id)
    write_exit(home, record)
    lease.release()
    return record


def _acquired(home: StreamHome, uid: str, say: Callable[[str], None]) -> Lease:
    try:
        return acquire(home, uid, say=say)
    except LeaseHeld as error:
        record_false_start(home, uid, error)
        raise


class _Driver:
    """One life of the driver, after it got the lease."""

    def __init__(
        self,
        running: RunningSpec,
        options: DriverOptions,
        home: StreamHome,
        lease: Lease,
        signals: StopSignals,
        say: Callable[[str], None],
    ) -> None:
        self._running, self._spec = running, running.spec
        self._options, self._home, self._lease = options, home, lease
        self._lease_watch = LeaseWatch(lease)
        self._query: StreamingQuery | None = None
        self._signals, self._say = signals, say
        self._signs = VitalSigns(home, lease)
        self._log = BoundedLog.from_environment()
        self._gate = BatchGate(self._must_stop)
        disks = (home.root, Path(tempfile.gettempdir()))
        self._watch = QueryWatch(self._signs, self._gate, self._lease_watch, disks)
        self._next_timeouts = 0
        self._progress = ProgressTeller(int(options.progress_every_s * 1000))
        rules = self._spec.rules
        every = max(self._spec.trigger_interval_ms, rules.emit_every_ms)
        self._idle = IdleClock(rules.idle_after_ms, every) if rules.idle_after_ms else None

    def run(self) -> tuple[Outcome, int | None]:
        self._signs.say(phase=Phase.STARTING)
        for line in self._running.lines():
            self._say(line)
        if self._options.until is Until.DRAINED:
            self._say(ANNOUNCED)
        check_reachable(self._spec.source)
        self._say(f"starting Spark for stream {self._spec.name}")
        with self._signs.beating():
            self._run = self._prepare()
        lineage_home = self._home.lineages / self._run.lineage
        table = TimeoutTable.of(self._run.spark, self._spec, self._options.platform_home, lineage_home)
        self._timeouts = None if table is None else TimeoutAnnouncer(table)
        if self._timeouts is not None:
            found = self._timeouts.look()
            if found is not None and self._timeouts.warning is not None:
                self._say(found)
        lineage = self._run.lineage
        self._taken = TakenPunctuations.left_behind(self._home.punctuations(lineage), self._home.checkpoint(lineage))
        if passed_over := files_passed_over(self._spec.source, self._options.platform_home):
            self._say(passed_over)
        self._say(f"query starts: lineage {self._run.lineage}, driver {self._lease.uid}, pid {os.getpid()}")
        if self._must_stop():
            self._gate.close()  # asked to while Spark was starting
        else:
            self._run_to_end(self._until())
        outcome = Outcome.DRAINED if self._gate.closed else Outcome.FINISHED
        self._run.spark.stop()
        if self._signs.beat.batch_id is not None:
            self._say(progress_line(self._signs.beat))
        return outcome, self._signs.beat.batch_id

    def query_has_ended(self) -> bool:
        """Cut the query off if it still runs, whatever kept us from watching it; False if it would not end."""
        return self._query is None or cut_off(self._query)

    def _run_to_end(self, until: Until) -> None:
        if self._run.resumes and self._needs_waking(until):
            punctuation.wake(self._home.punctuations(self._run.lineage))
        self._run_query(until_caught_up=until is not Until.STOPPED)
        if until is Until.DRAINED and not self._gate.closed:
            self._drain_lineage()

    def _needs_waking(self, until: Until) -> bool:
        """Whether a first batch is wanted though nothing new may come.

        It tells a driver that goes on where the watermark stands, and on the wall clock one that ends by itself closes
        with it what is over by now.
        """
        if until is Until.STOPPED:
            return self._idle is not None
        return self._spec.rules.time_mode is not TimeMode.EVENT_TIME

    def _drain_lineage(self) -> None:
        """Close every session, for good."""
        lineage = self._run.lineage
        begin_drain(self._home, lineage)
        self._say(f"draining lineage {lineage}: every session is closed now; what comes later would be late")
        punctuation.drain(self._home.punctuations(lineage))
        self._run_query(until_caught_up=True)
        if not self._gate.closed:
            end_drain(self._home, lineage)
            self._say(f"stream {self._home.name} is drained and over: no later run goes on from here")

    def _until(self) -> Until:
        """When to end: a drain that was begun is finished, whatever is asked for now."""
        if read_drain(self._home, self._run.lineage) is not None:
            self._say("a drain was begun and cut short: it is finished now")
            return Until.DRAINED
        return self._options.until

    def _prepare(self) -> Run:
        """Everything up to the query. What a spec can get wrong comes out before the lineage exists."""
        spark = spark_session(f"sessionizer {self._spec.name}", self._options.master)
        self._signals.take_over()
        lineage = active_lineage(self._home)
        with python_starting(spark):
            if lineage is not None:
                require_continuity(spark, self._running, self._home, self._options.platform_home, lineage)
            examined = self._examined(spark, lineage)
        spark.streams.addListener(ProgressListener(self._signs))
        if lineage is None:
            lineage = start_lineage(self._home, spec=new_record(self._home, self._spec))
        else:
            note_spec(self._home, lineage, self._running)
        remember_types(self._home, lineage, self._spec, examined.guarded.payload)
        counts = OpenSessions(self._home.lineages / lineage / "open_sessions.json")
        self._signs.say(lineage=lineage, open_keys=counts.total, spark_ui=spark.sparkContext.uiWebUrl)
        return Run(
            spark=spark,
            spec=self._spec,
            examined=examined,
            platform_home=self._options.platform_home,
            home=self._home,
            lineage=lineage,
            gate=self._gate,
            signs=self._signs,
            open_sessions=counts,
            permit=self._lease_watch.require,
        )

    def _examined(self, spark: SparkSession, lineage: str | None) -> Examined:
        """What the spec comes to over its source, with its tables made."""
        unreadable = UnreadableFiles.of(self._home, lineage).uris() if lineage else []
        examined = examine(spark, self._spec, self._options.platform_home, unreadable)
        require_readable_state(self._home, lineage, self._spec, examined.guarded.payload)
        self._ensure_tables(spark, examined.shapes(self._spec))
        return examined

    def _ensure_tables(self, spark: SparkSession, shapes: Iterable[TableShape]) -> None:
        """Have the tables of the stream, which no other one writes."""
        owner = owner_name(self._home.name, self._options.platform_home)
        ours = {name: self._locations[name] for name in STREAMED}
        claim_tables(spark, ours, owner, {folder.name for folder in self._home.lineages.iterdir()})
        ensure_tables(spark, shapes, ours, owner)
        require_ours(spark, ours, owner)

    @property
    def _locations(self) -> dict[str, str]:
        return table_locations(self._home, self._options.platform_home, self._spec.sink.path)

    def _run_query(self, *, until_caught_up: bool) -> None:
        """Run the query to its end, again where something ended it that it can go on without."""
        recovered_from: set[str] = set()
        while True:
            try:
                self._follow(self._run.start(until_caught_up=until_caught_up))
            except StreamingQueryException as error:
                found = self._run.recovered(error)
                if found is None or found[1] in recovered_from:
                    raise
                self._run, reason = found
                recovered_from.add(reason)
                self._say(reason)
            else:
                return

    def _must_stop(self) -> bool:
        return self._signals.received or stop_requested(self._home, self._lease.uid)

    def _follow(self, query: StreamingQuery) -> None:
        """Watch the query to its end. Raises what it died of, unless that was our own request."""
        self._query = query
        while query.isActive:
            self._lease_watch.look()
            if self._must_stop():
                self._say("stop requested: finishing the running batch")
                self._watch.stop(self._run.spark, query, self._say)
                break
            self._watch.look(self._run.spark, query)
            self._tell_progress()
            self._remove_taken_punctuations()
            if self._log is not None:
                self._log.trim()
            self._wake_quiet_stream(query)
            self._announce_timeouts()
            time.sleep(POLL_S)
        error = query.exception()
        if error is not None and not self._gate.refused:
            self._lease_watch.look()
            raise error

    def _tell_progress(self) -> None:
        line = self._progress.line(self._signs.beat, epoch_ms())
        if line is not None:
            self._say(line)

    def _remove_taken_punctuations(self) -> None:
        """What cannot be removed costs room, not the stream."""
        try:
            self._taken.sweep(self._signs.beat.batch_id)
        except OSError as error:
            self._say(f"punctuations that were read cannot be removed: {error}")
            self._taken.swept = self._signs.beat.batch_id

    def _announce_timeouts(self) -> None:
        if self._timeouts is None or epoch_ms() < self._next_timeouts:
            return
        self._next_timeouts = epoch_ms() + TIMEOUT_TABLE_EVERY_MS
        if (line := self._timeouts.look()) is not None:
            self._say(line)
        if self._timeouts.warning != self._signs.beat.warning:
            self._signs.say(warning=self._timeouts.warning)

    def _wake_quiet_stream(self, query: StreamingQuery) -> None:
        if self._idle is None or self._options.until is not Until.STOPPED:
            return
        now, events_at = epoch_ms(), self._signs.take_events_at()
        if events_at is not None:
            self._idle.saw_events(events_at)
        beat = self._signs.beat
        caught_up = self._signs.is_caught_up(now, query.status)
        latest_due_ms = self._run.open_sessions.latest_due_ms
        floor = self._idle.floor(now, beat.watermark_ms, latest_due_ms=latest_due_ms, caught_up=caught_up)
        if floor is not None:
            punctuation.move_watermark(self._home.punctuations(self._run.lineage), floor)
