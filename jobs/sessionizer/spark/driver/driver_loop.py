"""The driver: the process that owns a stream's lease and runs its query until told to stop.

It refuses to start without the lease, beats every few seconds, stops at a batch boundary when asked to, writes nothing
once the lease is lost, and leaves an exit record however it ends, after the query's own end.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sessionizer.checkpoint.log_entries import read_begun_batch, read_pinned_settings
from sessionizer.control.execution import Step, execute
from sessionizer.control.history.files import Mark, MarkKind, add_mark
from sessionizer.control.lease import Lease, LeaseWatch, acquire
from sessionizer.control.maintenance import record_failure, record_false_start
from sessionizer.control.openlineage.reporter import RunReporter, command_run, driver_run
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.driver_records import Phase
from sessionizer.control.records.operation_record import OperationRecord, pending_operation, require_no_operation
from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, stop_requested, write_exit
from sessionizer.control.records.supervision_records import bundle_of_watch
from sessionizer.control.status.batch_progress import ProgressTeller, progress_line
from sessionizer.deployment.releases import require_release
from sessionizer.deployment.running_spec import RunningSpec, choose_spec, note_spec
from sessionizer.errors import ControlUnreachable, LeaseHeld, LineageLeft, LineageUnfit, SessionizerError, StreamMovedOn
from sessionizer.home.clock import epoch_ms
from sessionizer.home.local_files import Reserve
from sessionizer.home.roots import is_local
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.driver_environment import PLAIN_SPARK, is_local_master, plain
from sessionizer.lineage import active, fingerprint
from sessionizer.lineage.batch_log import BatchLog, OpenSessions
from sessionizer.lineage.canary.canary_record import BY_CANARY, CanaryWatch, canary_of_active, read_canary
from sessionizer.lineage.canary.judge import CanaryOutcome
from sessionizer.lineage.excluded_ranges import read_excluded_ranges
from sessionizer.lineage.kept_spec import note_source_ids
from sessionizer.spark.driver.executors import require_fit_executors, start_python_workers, words_of_this_jvm
from sessionizer.spark.driver.heartbeat_writer import HeartbeatWriter, ProgressListener
from sessionizer.spark.driver.housekeeping import Housekeeping
from sessionizer.spark.driver.options import WILL_DRAIN, DriverOptions, Until
from sessionizer.spark.driver.prepared_query import BatchFiles, PreparedQuery, require_folder
from sessionizer.spark.driver.query_watch import REFUSED_BATCH, QueryWatch, StopGate, StopSignals, cut_off
from sessionizer.spark.failures.query_failure import classify_failure, is_transient_failure
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.ingest.file_source.folder_watch import files_passed_over
from sessionizer.spark.ingest.guard import remember_types, require_readable_state
from sessionizer.spark.ingest.source import SourceMemory, check_reachable
from sessionizer.spark.ingest.topics import require_same_columns, require_source
from sessionizer.spark.session import driver_metrics, jvm_version, set_log_level, spark_session
from sessionizer.spark.sinks.examine import TableCheck, examine, require_continuity
from sessionizer.spark.sinks.tables import delete_open_sessions, have_tables
from sessionizer.spark.state.commands.restores import RollbackRunner
from sessionizer.state.commands.restores import Rollback
from sessionizer.state.commands.steps import PointOfNoReturn
from sessionizer.stream_spec.spec_folder import SpecFile


class DriverLoop:
    """The life of the driver that holds ``lease``, by the spec that is ``running``."""

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
        self._shows_open = running.spec.sink.open_sessions_every_ms is not None
        self._canary: CanaryWatch | None = None
        self._heartbeat = HeartbeatWriter(home, lease)
        self._listener = ProgressListener(self._heartbeat)
        self._gate = StopGate(self._must_stop)
        self._watch = QueryWatch(self._heartbeat, self._gate, self._lease_watch, home, running.spec.source)
        self._progress = ProgressTeller(int(options.progress_every_s * 1000))
        self.report = RunReporter(lambda: driver_run(home, self._spec, self._heartbeat.beat), say)

    def run(self) -> tuple[ExitOutcome, int | None]:
        """Run to the end. Return how it ended and the last batch, if any, or raise the error that ended it."""
        self._begin()
        with self._heartbeat.keep_beating():
            local_data, metrics = is_local(self._home.data), driver_metrics(self._spec.name)
            name = f"sessionizer {self._spec.name}"
            spark = spark_session(name, self._options.master, metrics, local_data=local_data)
            self._signals.take_over()
            self._heartbeat.note_start_progress()
            self._prepared = self._prepare_query(spark)
        self._housekeeping = Housekeeping(self._prepared, self._options.until, self._say)
        for each in read_excluded_ranges(self._home, self._prepared.lineage).lines():
            self._say(f"left out of the source, to quarantine: {each}")
        if passed_over := files_passed_over(self._spec.source, self._home.platform):
            self._say(passed_over)
        if self._canary is not None:
            self._say(self._canary.line(self._prepared.batch_log.life))
        self._say(f"query starts: lineage {self._prepared.lineage}, driver {self._lease.uid}, pid {os.getpid()}")
        if self._must_stop():
            self._gate.closed = True  # asked to while Spark was starting
        else:
            until = self._options.until
            if active.DRAINED_FILE.of(self._home, self._prepared.lineage).require() is not None:
                self._say("a drain was begun and cut short: it is finished now")
                until = Until.DRAINED  # whatever the options say
            self._run_to_end(until)
        outcome = ExitOutcome.STOPPED if self._gate.closed else ExitOutcome.FINISHED
        self._housekeeping.end()
        self._prepared.spark.stop()
        self._heartbeat.history.flush(epoch_ms())
        if self._heartbeat.beat.batch_id is not None:
            self._say(progress_line(self._heartbeat.beat))
        return outcome, self._heartbeat.beat.batch_id

    def _begin(self) -> None:
        # the time for the start begins here, because a rollback before it takes as long as it takes
        self._heartbeat.note_start_progress(phase=Phase.STARTING)
        self._canary = CanaryWatch.begun_by(self._home, self._lease.uid)
        for line in self._running.lines():
            self._say(line)
        if self._options.until is Until.DRAINED:
            self._say(WILL_DRAIN)
        if plain():
            self._say(f"{PLAIN_SPARK}=1: nothing private of Spark or Delta is used, which is slower")
        check_reachable(self._spec.source)
        require_folder(self._home, self._spec.source)
        lineage = active.active_lineage(self._home)
        self._tables = TableCheck(self._home, self._spec, lineage, self._options.accept_tables, self._say)
        self._tables.check_files()
        known = None if lineage is None else fingerprint.read_fingerprint(self._home, lineage)
        # parsing the deciding code takes a second, in which this thread waits for the JVM
        threading.Thread(
            target=fingerprint.present_fingerprint, kwargs={"known": known}, name="code-digest", daemon=True
        ).start()
        self._say(f"starting Spark for stream {self._spec.name}")

    def _prepare_query(self, spark: SparkSession) -> PreparedQuery:
        home, spec, lineage = self._home, self._spec, active.active_lineage(self._home)
        if not is_local_master(spark.sparkContext.master or ""):
            require_fit_executors(spark, home.data)
            self._heartbeat.note_start_progress()
        with start_python_workers(spark):
            if lineage is not None:
                require_continuity(spark, self._running, home, lineage)
                self._heartbeat.note_start_progress()
            self._tables.check_with_delta(spark)
            source = require_source(spark, home, spec, lineage)
            columns = require_same_columns(spark, home, spec, lineage)
            examined = examine(spark, spec, home.platform, SourceMemory.of(home, lineage))
            require_readable_state(home, lineage, spec, examined.guarded.payload)
            self._heartbeat.note_start_progress()
            have_tables(spark, home, spec, examined.shapes(spec), anew=self._tables.accepts)
            self._tables.require_known()
        spark.streams.addListener(self._listener)
        if lineage is None:
            lineage = active.start_lineage(home, spec=self._running.new_record())
        else:
            note_spec(home, lineage, self._running)
        delete_open_sessions(spark, home, (spec.sink.path, lineage) if self._shows_open else None)
        note_source_ids(home, lineage, source)
        _note_fingerprint(spark, home, lineage)
        remember_types(home, lineage, spec, examined.guarded.payload)
        counts, ui = OpenSessions(home.lineage(lineage).open_sessions), spark.sparkContext.uiWebUrl
        self._heartbeat.note_start_progress(lineage=lineage, open_keys=counts.total, spark_ui=ui)
        return PreparedQuery(
            spark=spark,
            spec=spec,
            examined=examined,
            home=home,
            lineage=lineage,
            gate=self._gate,
            heartbeat=self._heartbeat,
            open_sessions=counts,
            batch_log=BatchLog(home.lineage(lineage).batches),
            permit=self._lease_watch.require,
            files=BatchFiles(home, lineage, columns),
        )

    def query_has_ended(self) -> bool:
        """Cut the query off if it still runs, after any failure to watch it. False if it would not end."""
        return self._query is None or cut_off(self._query, self._listener)

    def ends_with(self, error: SessionizerError) -> SessionizerError:
        """Return the error that the driver reports after ``error`` ended its life. The history is written before."""
        self._heartbeat.history.flush(epoch_ms())
        return error if self._canary is None else self._canary.translate_error(error)

    def _run_to_end(self, until: Until) -> None:
        has_begun = read_begun_batch(self._home.checkpoint(self._prepared.lineage)) is not None
        # a first batch tells a resuming driver its watermark. On the wall clock, a driver that ends by itself closes
        # with it the sessions that are over by now
        quiet, timed = self._housekeeping.follows_a_quiet_source, self._spec.rules.clock.has_watermark
        if has_begun and (quiet if until is Until.STOPPED else not timed):
            punctuation.wake(self._home.punctuations(self._prepared.lineage))
        self._run_query(until_caught_up=until is not Until.STOPPED)
        if until is Until.STOPPED or self._gate.closed:
            return
        if self._shows_open:
            punctuation.show_open_sessions(self._home.punctuations(self._prepared.lineage))
        if until is Until.DRAINED:
            self._drain_lineage()
        elif self._shows_open:
            self._run_query(until_caught_up=True)

    def _drain_lineage(self) -> None:
        lineage = self._prepared.lineage
        active.begin_drain(self._home, lineage)
        self._say(f"draining lineage {lineage}: every session is closed now, and later events would be late")
        punctuation.drain(self._home.punctuations(lineage))
        self._run_query(until_caught_up=True)
        if not self._gate.closed:
            active.end_drain(self._home, lineage)
            self._say(f"stream {self._home.name} is drained and over: no later run can resume it")

    def _run_query(self, *, until_caught_up: bool) -> None:
        recovered_from: set[str] = set()
        while True:
            try:
                self._follow(self._prepared.start(until_caught_up=until_caught_up))
            except StreamingQueryException as error:
                if self._gate.failure is not None:
                    raise self._gate.failure from error
                found = self._prepared.recovered(error)
                if found is None or found[1] in recovered_from:
                    raise
                self._prepared, reason = found
                recovered_from.add(reason)
                self._say(reason)
            else:
                return

    def _must_stop(self) -> bool:
        try:
            return self._signals.received or stop_requested(self._home, self._lease.uid)
        except ControlUnreachable:
            return False  # for how long that may last the lease says

    def _follow(self, query: StreamingQuery) -> None:
        """Watch the query to its end. Raises the error that ended it, unless the driver stopped it."""
        self._query = query
        while query.isActive:
            self._lease_watch.look()
            if self._must_stop():
                self._say("stop requested: finishing the running batch")
                self._watch.stop(self._prepared.spark, query, self._say)
                break
            self._watch.look(self._prepared.spark, query)
            beat = self._heartbeat.beat
            if beat.batch_id is not None:
                self.report.note_progress(beat.lineage)
            if (line := self._progress.line(beat, epoch_ms())) is not None:
                self._say(line)
            self._housekeeping.do(query)
            self._judge(query)
            time.sleep(self._watch.poll_s)
        if self._gate.refused:
            self._say(REFUSED_BATCH)
            set_log_level(self._prepared.spark)  # what goes wrong from now on is told again
        if (error := query.exception()) is not None and not self._gate.refused:
            self._lease_watch.look()
            raise error
        self._judge(query)

    def _judge(self, query: StreamingQuery) -> None:
        """Judge a canary by the batches since the last look. If it fails, stop, and raise LineageUnfit, LineageLeft."""
        try:
            if self._canary is not None and (line := self._canary.judge_batches(self._prepared.batch_log)) is not None:
                self._say(line)
        except (LineageUnfit, LineageLeft):
            self._watch.stop(self._prepared.spark, query, self._say)
            raise


def drive(home: StreamHome, file: SpecFile, options: DriverOptions, say: Callable[[str], None]) -> ExitRecord:
    """Run the stream at ``home`` whose spec ``file`` holds, and return how it ended.

    Raises the error that kept it from starting or running on, after recording it. ``say`` gets one line for each event
    that a user would want to know.
    """
    home.prepare()
    lease = _acquire_lease(home, options.uid, say)
    reserve = Reserve(home.reserve(lease.uid))
    if is_local(home.control_base):
        reserve.take()
    driver: DriverLoop | None = None
    add_mark(home, Mark(kind=MarkKind.START, uid=lease.uid))
    try:
        with StopSignals() as signals:
            roll_back_if_due(home, lease, options, say)
            require_no_operation(home)
            active.require_not_drained(home)
            if (lineage := active.active_lineage(home)) is not None:
                fingerprint.require_readable_lineage(home, lineage)
                fingerprint.require_same_engine(home, lineage)
            require_release(home, file)
            _prepare_data(home, lineage)
            running = choose_spec(home, file, apply=options.apply)
            active.require_own_home(home, running.spec.sink.path)
            driver = DriverLoop(running, options, home, lease, signals, say)
            with driver.report:
                outcome, batch_id = driver.run()
    except BaseException as error:
        cause = classify_failure(home.name, error, words_of_this_jvm) if isinstance(error, Exception) else error
        if driver is None or driver.query_has_ended():
            reserve.give_up()
            if driver is not None and isinstance(cause, SessionizerError):
                cause = driver.ends_with(cause)
            record_failure(home, lease.uid, cause)
            lease.release()
        else:
            # a record would free the lease: only the end of this process ends what the query may still do
            say("the query did not end in time, so this driver leaves no exit record")
        raise cause from error
    reserve.give_up()
    add_mark(home, Mark(kind=MarkKind.STOP, what=str(outcome), uid=lease.uid, batch_id=batch_id))
    record = ExitRecord(uid=options.uid, at=epoch_ms(), outcome=outcome, batch_id=batch_id)
    write_exit(home, record)
    lease.release()
    return record


def _note_fingerprint(spark: SparkSession, home: StreamHome, lineage: str) -> None:
    """Record what the lineage runs by from now on. A patch release of the engine is taken in place."""
    versions = {fingerprint.SPARK: spark.version, fingerprint.JAVA: jvm_version(spark)}
    now = fingerprint.present_fingerprint(versions, fingerprint.read_fingerprint(home, lineage))
    settings = read_pinned_settings(home.checkpoint(lineage))
    fingerprint.write_fingerprint(home, lineage, replace(now, configuration=settings, bundle=bundle_of_watch(home)))


def _prepare_data(home: StreamHome, lineage: str | None) -> None:
    """Prepare the stream's data. The checkpoint of the active lineage must be there before a folder is made."""
    if lineage is not None:
        fingerprint.require_checkpoint(home, lineage)
    home.prepare_data()
    active.require_own_data(home)
    if lineage is None:
        active.require_no_history(home)
    active.claim_data(home)


def _acquire_lease(home: StreamHome, uid: str, say: Callable[[str], None]) -> Lease:
    try:
        return acquire(home, uid, say=say)
    except LeaseHeld as error:
        record_false_start(home, uid, error)
        raise


def roll_back_if_due(home: StreamHome, lease: Lease, options: DriverOptions, say: Callable[[str], None]) -> None:
    """Roll back to the lineage before if the active one failed its canary and the user approved a rollback.

    It is the same rollback that a user types. If it is killed anywhere, the next driver resumes it. A user may promote
    the lineage meanwhile, because Spark takes long to start. Then it is kept. Raises NoWayBack, EventsGone and other
    errors that end a rollback. Then a user has to decide.
    """
    pending, canary = pending_operation(home), canary_of_active(home)
    is_begun = pending is not None and pending.verb == Rollback.name and pending.by.startswith(BY_CANARY)
    if not is_begun and (canary is None or not canary.goes_back or pending is not None):
        return
    if (lineage := active.active_lineage(home)) is not None:
        fingerprint.require_data_here(home, lineage)  # an older release may leave a lineage that it cannot read
    with HeartbeatWriter(home, lease).keep_beating(works=True):
        spark = spark_session(f"sessionizer {home.name}", options.master, local_data=is_local(home.data))
        if canary is not None and canary.goes_back:
            say(f"lineage {canary.lineage} failed its canary ({canary.reason}): rolling back")
        runner = CanaryRollbackRunner(spark=spark, home=home, say=say, command=Rollback())
        record = pending or _approve_rollback(runner)
        try:
            run = record.verb, record.id, record.begun_at, record.lineage_from
            with RunReporter(lambda: command_run(home, *run), say):
                done = execute(Operation(home, record, lease.check, is_transient_failure), runner)
        except StreamMovedOn as promoted:
            say(f"no rollback: {promoted.cause}")
            return
    say(f"back in lineage {done.lineage_to} ({done.seconds} s). Lineage {record.lineage_from} is kept for inspection")


@dataclass(kw_only=True)
class CanaryRollbackRunner(RollbackRunner):
    """Runner of the rollback of a failed canary, which a promotion prevents up to the point of no return.

    A promotion is refused once the rollback has a record, and this looks for one after that. So none is overlooked.
    """

    def run(self, step: Step, operation: Operation) -> str | None:
        """Run a step. Raises StreamMovedOn, before a row is deleted, if the lineage was promoted meanwhile."""
        record = operation.record
        canary = read_canary(self.home, record.lineage_from) if isinstance(step, PointOfNoReturn) else None
        if canary is not None and canary.outcome is CanaryOutcome.PROMOTED:
            cause = f"{canary.by} promoted lineage {record.lineage_from}"
            raise StreamMovedOn(self.home.name, record.digest, cause)
        return super().run(step, operation)


def _approve_rollback(runner: RollbackRunner) -> OperationRecord:
    plan = runner.look()
    plan.require_possible()
    by = f"{BY_CANARY}{plan.leaves[0]}"
    return new_operation(runner.home, Rollback.name, plan.digest, by, plan.leaves, decided=plan.decided)
