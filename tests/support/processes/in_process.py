"""A stream's query run to its end in the Spark of the tests: what a driver does, without the process."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sessionizer.checkpoint.log_entries import PARTITIONS
from sessionizer.control.lease import Lease, acquire
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.outcome import Outcome
from sessionizer.lineage.active import active_lineage, start_lineage
from sessionizer.lineage.batch_log import BatchLog, OpenSessions
from sessionizer.lineage.kept_spec import keep_rescale, note_source_ids
from sessionizer.spark.driver.heartbeat_writer import HeartbeatWriter
from sessionizer.spark.driver.prepared_query import BatchFiles, PreparedQuery
from sessionizer.spark.driver.query_watch import StopGate
from sessionizer.spark.failures.query_failure import TRIES, is_worker_late
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.ingest.guard import remember_types, require_readable_state
from sessionizer.spark.ingest.source import SourceMemory
from sessionizer.spark.ingest.topics import require_same_columns, require_source
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.session import set_log_level
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.sinks.tables import ensure_tables
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import batches_of
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.stage import Stage, clicks_spec


def drain(spark: SparkSession, stage: Stage) -> None:
    """Read all there is and close every session. Raises what the query dies of."""
    with _prepared(spark, stage) as run:
        caught_up, _ = _run_to_end(run)
        assert stage.lineage
        punctuation.drain(stage.stream_home.punctuations(stage.lineage))
        _run_to_end(caught_up)


def catch_up(spark: SparkSession, stage: Stage) -> list[str]:
    """Read all there is; returns what the query had to do without. Raises what it dies of."""
    with _prepared(spark, stage) as run:
        return _run_to_end(run)[1]


class ReadClicks(NamedTuple):
    """A stream that has read files of clicks, and the rows of each."""

    stage: Stage
    files: ClickFiles

    def outcome(self, until: int) -> Outcome:
        """Return the definition's outcome of the batches up to that one."""
        committed = CheckpointLog(self.stage.checkpoint).committed()[: until + 1]
        return sessionize(batches_of(committed, self.files), rules_of(self.stage.spec()))


def read_clicks(
    spark: SparkSession,
    root: Path,
    count: int,
    spec: dict[str, Any] | None = None,
    *,
    rate: float = 12.0,
    data: str | None = None,
) -> ReadClicks:
    """Begin a stream that reads so many files of clicks."""
    stage = Stage.begun(root, spec or clicks_spec(), data=data)
    files = write_click_files(stage.feed, count, rate=rate)
    catch_up(spark, stage)
    stage.record_spec()
    return ReadClicks(stage, files)


def begin_batch(spark: SparkSession, stage: Stage) -> None:
    """Have Spark settle what the next batch reads, and turn that batch away: what a driver leaves that is killed."""
    lease = acquire(stage.stream_home, "tests")
    try:
        run = replace(_run(spark, stage, lease), gate=StopGate(lambda: True))
        with contextlib.suppress(StreamingQueryException):
            run.start(until_caught_up=True).awaitTermination()
    finally:
        set_log_level(spark)
        lease.release()


def deliver_events(spark: SparkSession) -> None:
    """Wait until Spark's listeners, of which some count its jobs, were told of all that happened."""
    # Spark has no public way to do that
    context: Any = spark.sparkContext._jsc
    context.sc().listenerBus().waitUntilEmpty(120_000)  # ms


@contextlib.contextmanager
def _prepared(spark: SparkSession, stage: Stage) -> Iterator[PreparedQuery]:
    """Hold the lease of the stream while the block runs its query."""
    stage.stream_home.prepare()
    lease = acquire(stage.stream_home, "tests")
    partitions = str(spark.conf.get(PARTITIONS))
    try:
        yield _run(spark, stage, lease)
    finally:
        lease.release()
        # a driver's session is its own; the next stream of the tests begins in this one
        spark.conf.set(PARTITIONS, partitions)


def _run_to_end(run: PreparedQuery) -> tuple[PreparedQuery, list[str]]:
    """Return the query that ended, and what it had to do without. A driver's next try is not counted by a test."""
    reasons: list[str] = []
    late = 0
    while True:
        try:
            run.start(until_caught_up=True).awaitTermination()
        except StreamingQueryException as error:
            if is_worker_late(error) and late < TRIES:
                late += 1
                continue
            found = run.recovered(error)
            if found is None or found[1] in reasons:
                raise
            run, reason = found
            reasons.append(reason)
        else:
            return run, reasons


def _run(spark: SparkSession, stage: Stage, lease: Lease) -> PreparedQuery:
    home = stage.stream_home
    spec = keep_rescale(home, stage.lineage, stage.spec())  # as a driver does
    source = require_source(spark, home, spec, active_lineage(home))
    columns = require_same_columns(spark, home, spec, active_lineage(home))
    examined = examine(spark, spec, stage.home, SourceMemory.of(home, stage.lineage))
    locations = home.table_locations(spec.sink.path)
    require_readable_state(home, active_lineage(home), spec, examined.guarded.payload)
    ensure_tables(spark, examined.shapes(spec), locations)
    lineage = active_lineage(home) or start_lineage(home)
    note_source_ids(home, lineage, source)
    remember_types(home, lineage, spec, examined.guarded.payload)
    return PreparedQuery(
        spark=spark,
        spec=spec,
        examined=examined,
        home=home,
        lineage=lineage,
        gate=StopGate(lambda: False),
        heartbeat=HeartbeatWriter(home, lease),
        open_sessions=OpenSessions(home.lineage(lineage).open_sessions),
        batch_log=BatchLog(home.lineage(lineage).batches),
        permit=lambda: None,
        files=BatchFiles(home, lineage, columns),
    )
