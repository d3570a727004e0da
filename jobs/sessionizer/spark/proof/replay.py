"""Replay of recorded batches on a fork, in one query, by the code and the spec of now."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from sessionizer.causes.query_causes import PRIVATE_DOOR, UNKNOWN
from sessionizer.checkpoint.batch_logs import read_last_commit
from sessionizer.core.wire import rows
from sessionizer.errors import NothingToProve, PrivateDoorBroken, QueryFailed, TransientError
from sessionizer.home.names import STREAMED
from sessionizer.spark.failures.query_failure import classify_failure
from sessionizer.spark.ingest.guarded_source import SourceMemory
from sessionizer.spark.ingest.source_identity import require_source
from sessionizer.spark.internals.java_errors import JavaError
from sessionizer.spark.query.assembly import session_query
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.sinks.guarded_aggregates import GuardedAggregates
from sessionizer.spark.sinks.tables import ensure_tables
from sessionizer.spark.sinks.write import Sinks
from sessionizer.state.proof.result import Death

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
    query, sinks = _prepare(spark, home, recording, fork, examined)
    run, started, died = _Run(home.name, sinks, fork, recording.batches.ids, say), time.monotonic(), None
    try:
        query.run_planned_batches(run.write, fork.checkpoint, run.plan_next)
    except (PySparkException, JavaError) as error:
        died = Death(run.batch_id, _cause_of_death(home.name, run.batch_id, run.failure or error))
    return Replayed(run.batches[: run.over], run.events, time.monotonic() - started, died)


def examine_replay(spark: SparkSession, home: StreamHome, recording: Recording) -> Examined:
    """Examine the spec of the replay over the source, without the files and ranges that the lineage leaves out.

    Raises InvalidSpec, SourceReplaced, SourceUnreachable.
    """
    require_source(spark, home, recording.spec, recording.lineage)
    return examine(spark, recording.spec, home.platform, SourceMemory.of(home, recording.lineage))


def _prepare(
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
    """Run of the recorded ``batches``, of which so many are ``over``.

    ``counts``: of the batch that runs, once it is written. Spark passes on only the text of a ``failure`` in Python.
    """

    stream: str
    sinks: Sinks
    fork: Fork
    batches: tuple[int, ...]
    say: Callable[[str], None]
    over: int = 0
    events: int = 0
    counts: BatchCounts | None = None
    failure: Exception | None = None
    is_begun: bool = False

    @property
    def batch_id(self) -> int:
        """The batch that runs."""
        return self.batches[self.over]

    def plan_next(self) -> bool:
        """Count the batch that is over, and plan the next one. Returns False after the last.

        Raises NothingToProve if Spark did not run the batch, OSError.
        """
        with self._kept_failure():
            if self.is_begun:
                self._end_batch()
            self.is_begun = self.over < len(self.batches)
            if self.is_begun:
                self.fork.plan_batch(self.batch_id)
            return self.is_begun

    def _end_batch(self) -> None:
        committed = read_last_commit(self.fork.checkpoint)
        if self.counts is None or committed != self.fork.number_of(self.batch_id):
            raise NothingToProve(self.stream, f"Spark does not run batch {self.batch_id} as it is recorded")
        self.events += _rows_read(self.counts)
        self.counts = None
        self.over += 1
        self.say(f"batch {self.batches[self.over - 1]} replayed ({self.over} of {len(self.batches)})")

    def write(self, emitted: DataFrame, number: int) -> None:
        """Write the rows of the batch. Raises NothingToProve for another batch than the recorded one."""
        with self._kept_failure():
            if number != self.fork.number_of(self.batch_id):
                raise NothingToProve(self.stream, f"Spark runs batch {number} in the place of {self.batch_id}")
            self.counts = self.sinks.write(emitted, self.batch_id)

    @contextmanager
    def _kept_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failure = error
            raise


def _rows_read(counts: BatchCounts) -> int:
    return counts.admitted + counts[rows.LATE] + counts[rows.QUARANTINE]


def _cause_of_death(stream: str, batch_id: int, error: Exception) -> str:
    """Return the cause in a line. Raises the error if the surroundings or the source are to blame."""
    found = classify_failure(stream, error)
    if isinstance(found, NothingToProve | PrivateDoorBroken) or getattr(found, "cause", None) == PRIVATE_DOOR:
        raise found from error
    if isinstance(found, TransientError) and getattr(found, "cause", None) != UNKNOWN:
        raise found from error
    if isinstance(found, QueryFailed) and found.cause.startswith(_OF_THE_SOURCE):
        raise NothingToProve(stream, f"batch {batch_id} cannot be replayed: {found}") from error
    return str(found).splitlines()[0]
