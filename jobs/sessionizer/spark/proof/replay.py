"""Replay of recorded batches on a fork, one query a batch, by the code and the spec of now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from sessionizer.checkpoint.batch_logs import committed_batch
from sessionizer.core.wire import rows
from sessionizer.errors import NothingToProve, QueryFailed, TransientError
from sessionizer.lineage.left_out import read_left_out
from sessionizer.spark.failures.query_failure import UNKNOWN, classified
from sessionizer.spark.ingest.file_source.unreadable import UnreadableFiles
from sessionizer.spark.ingest.source_identity import require_source
from sessionizer.spark.internals.java_errors import JavaError
from sessionizer.spark.query.assembly import session_query
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.sinks.guarded_aggregates import GuardedAggregates
from sessionizer.spark.sinks.table_shapes import STREAMED
from sessionizer.spark.sinks.tables import ensure_tables
from sessionizer.spark.sinks.write import Sinks
from sessionizer.state.proof.result import Death

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.spark.proof.fork import Fork
    from sessionizer.spark.proof.recording import Recording
    from sessionizer.spark.query.assembly import SessionQuery
    from sessionizer.spark.sinks.examine import Examined
    from sessionizer.spark.sinks.write import BatchCounts

_OF_THE_SOURCE = "source_"
"""Beginning of the causes of failures for which the source is to blame, not the release."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Batches that were replayed, the rows that they read, the time it took, and the batch that failed, if any."""

    batches: tuple[int, ...]
    events: int
    seconds: float
    died: Death | None = None


def replay(
    spark: SparkSession,
    home: StreamHome,
    recording: Recording,
    fork: Fork,
    examined: Examined,
    say: Callable[[str], None],
) -> Replayed:
    """Run the recorded batches on the ``fork``, into tables of its own.

    Raises NothingToProve if the source lost events, and the transient error that ended a query.
    """
    query, sinks = _prepared(spark, home, recording, fork, examined)
    done: list[int] = []
    events, started = 0, time.monotonic()
    for batch_id in recording.batches.ids:
        fork.plan_batch(batch_id)
        run = _Run(sinks, batch_id, fork.number_of(batch_id))
        try:
            query.start_planned_batch(run.write, fork.checkpoint).awaitTermination()
        except (PySparkException, JavaError) as error:
            died = Death(batch_id, _cause_of_death(home.name, batch_id, run.failure or error))
            return Replayed(tuple(done), events, time.monotonic() - started, died)
        if committed_batch(fork.checkpoint) != run.number or run.counts is None:
            raise NothingToProve(home.name, f"Spark does not run batch {batch_id} as it is recorded")
        events += _rows_read(run.counts)
        done.append(batch_id)
        say(f"batch {batch_id} replayed ({len(done)} of {len(recording.batches.ids)})")
    return Replayed(tuple(done), events, time.monotonic() - started)


def examine_replay(spark: SparkSession, home: StreamHome, recording: Recording) -> Examined:
    """Examine the spec of the replay over the source, without the files and ranges that the lineage leaves out.

    Raises InvalidSpec, SourceReplaced, SourceUnreachable.
    """
    require_source(spark, home, recording.spec, recording.lineage)
    unreadable = UnreadableFiles.of(home, recording.lineage).uris()
    left_out = read_left_out(home, recording.lineage)
    return examine(spark, recording.spec, home.platform, unreadable, left_out)


def _prepared(
    spark: SparkSession, home: StreamHome, recording: Recording, fork: Fork, examined: Examined
) -> tuple[SessionQuery, Sinks]:
    """Make the tables of the replay, and build its query."""
    spec = recording.spec
    locations: Mapping[str, str] = {name: fork.table(name) for name in STREAMED}
    ensure_tables(spark, examined.shapes(spec), locations)
    query = session_query(spark, spec, examined.guarded, home.punctuations(recording.lineage))
    measures = GuardedAggregates.of(spark, spec.measures)
    fields, keep = examined.guarded.payload_fields, spec.sink.keep_events
    return query, Sinks(recording.lineage, locations, fields, measures, keep, lambda: None, home.name)


@dataclass(slots=True)
class _Run:
    """Run of the recorded ``batch_id``, which has another ``number`` in a fork that was seeded.

    Spark passes on only the text of a ``failure`` in Python.
    """

    sinks: Sinks
    batch_id: int
    number: int
    counts: BatchCounts | None = None
    failure: Exception | None = None

    def write(self, emitted: DataFrame, batch_id: int) -> None:
        """Write the rows of the batch. Raises RuntimeError for another batch than the recorded one."""
        if batch_id != self.number:
            message = f"batch {batch_id} is not the recorded one"
            raise RuntimeError(message)
        try:
            self.counts = self.sinks.write(emitted, self.batch_id)
        except Exception as error:
            self.failure = error
            raise


def _rows_read(counts: BatchCounts) -> int:
    return counts.admitted + counts[rows.LATE] + counts[rows.QUARANTINE]


def _cause_of_death(stream: str, batch_id: int, error: Exception) -> str:
    """Return the cause in a line. Raises the error if the surroundings or the source are to blame."""
    found = classified(stream, error)
    if isinstance(found, TransientError) and getattr(found, "cause", None) != UNKNOWN.name:
        raise found from error
    if isinstance(found, QueryFailed) and found.cause.startswith(_OF_THE_SOURCE):
        raise NothingToProve(stream, f"batch {batch_id} cannot be replayed: {found}") from error
    return str(found).splitlines()[0]
