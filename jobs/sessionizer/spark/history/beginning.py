"""Execution of a seed: a history is taken and kept, a lineage begins with its open events, then the tables are written.

Killed anywhere it is done again from its record. The results of the history are kept until the end, so a second run
takes nothing else. The finished sessions are written last, under the new lineage's batch 0, which a table takes once.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from sessionizer.control.records.operation_record import Ending, Reached
from sessionizer.core.wire import rows
from sessionizer.deployment.running_spec import new_record
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import remove_tree
from sessionizer.home.lineage_home import ANNOUNCED_TIMEOUTS
from sessionizer.lineage.checkpoint import PARTITIONS, partitions_of
from sessionizer.lineage.sink_folders import sink_folders
from sessionizer.lineage.trial.batch_log import BatchLog, table_key
from sessionizer.spark.ingest.timeout_table import announcement
from sessionizer.spark.sinks.guarded_aggregates import GuardedAggregates
from sessionizer.spark.sinks.own_tables import have_tables, streamed_tables
from sessionizer.spark.sinks.table_shapes import STREAMED
from sessionizer.spark.sinks.write import Sinks
from sessionizer.spark.state.emitted_rows import open_events_in
from sessionizer.spark.state.lineages.seeding import Seeding
from sessionizer.spark.state.open_events import open_event_schema
from sessionizer.spark.state.restores.table_rows import change_rows, count_changes
from sessionizer.state.lineages.handover import Handover, Step, settle
from sessionizer.state.lineages.origin import Origin, activated_by, origins_of
from sessionizer.state.restores.row_changes import deletion_of_all
from sessionizer.state.restores.row_changes import streamed_tables as tables_in
from sessionizer.state.seeds.seed_plan import VERB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionizer.control.lease.lease import Lease
    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.trial.judging import Terms
    from sessionizer.spark.history.taking import Taken, Taking
    from sessionizer.state.restores.row_changes import StreamedTable

_SEED_BATCH: Final = 0


@dataclass(slots=True)
class Beginning:
    """A seed of the history that ``taking`` reads, under ``lease``. ``operation`` records its progress."""

    taking: Taking
    lease: Lease
    operation: Operation
    say: Callable[[str], None]
    trial: Terms | None = None

    def run(self) -> OperationRecord:
        """Run the seed and return its record.

        Raises errors of reading the history and of making the lineage, LeaseLost.
        """
        home, record = self.operation.home, self.operation.record
        taken = None
        lineage = activated_by(home, record)
        if lineage is None:
            with self._removed_if_abandoned(), self.operation.abandoned_if_it_fails(before=Reached.SEEDED):
                self.operation.reached(Reached.STOPPED)
                taken = self._taken()
                self.operation.reached(Reached.TAKEN)
                lineage = self._begun(taken)
        taken = taken or self._taken()
        settle(home, lineage, taken.kept)
        if self.taking.decision.backfill:
            self._fill_tables(lineage, taken)
        done = self.operation.finish(lineage)
        remove_tree(home.seeds)
        return done

    @contextmanager
    def _removed_if_abandoned(self) -> Iterator[None]:
        """Remove the results of the history if the seed is abandoned, because they are of no use to another."""
        try:
            yield
        except Exception:
            if self.operation.record.outcome is Ending.ABANDONED:
                remove_tree(self.operation.home.seeds)
            raise

    def _taken(self) -> Taken:
        taking, home = self.taking, self.operation.home
        shapes = taking.examined.shapes(taking.spec)
        have_tables(taking.spark, home, taking.spec, shapes)
        self.say("taking the history")
        return taking.kept(home.seeds / self.operation.record.id, self.lease.check)

    def _begun(self, taken: Taken) -> str:
        taking, home = self.taking, self.operation.home
        seeding = Seeding(
            spark=taking.spark,
            home=home,
            spec=taking.spec,
            examined=taking.examined,
            partitions=partitions_of(taking.spark.conf.get(PARTITIONS), taking.spec.key_groups),
            permit=self.lease.check,
            after=self._finish_step,
            trial=self.trial,
        )
        handover = Handover(
            origin=Origin(VERB, epoch_ms(), taking.decision.leaves),
            spec=new_record(home, taking.spec),
            kept=taken.kept,
            watermark_ms=taken.figures.watermark_ms,
            offset=taken.place.offset,
            seen=taken.place.seen,
            timeouts=taken.timeouts,
            records={ANNOUNCED_TIMEOUTS: announcement(taken.timeouts)} if taken.timeouts else {},
        )
        return seeding.run(open_events_in(taken.frame(taking.spark), open_event_schema(taken.kept)), handover)

    def _finish_step(self, step: Step) -> None:
        """Delete the stream's rows so far when the new lineage is whole, just before it becomes active."""
        self.say(f"new lineage: {step}")
        if step is Step.FURNISHED:
            self.operation.reached(Reached.SEEDED)
            if self.taking.decision.leaves is not None:
                self._delete_all_rows()
                self.operation.reached(Reached.TAKEN_BACK)

    def _delete_all_rows(self) -> None:
        taking, home = self.taking, self.operation.home
        changes = deletion_of_all(origins_of(home))
        change_rows(taking.spark, self.operation, _tables_of(taking, home), changes, self.lease.check, self.say)

    def _fill_tables(self, lineage: str, taken: Taken) -> None:
        taking, spec = self.taking, self.taking.spec
        sinks = Sinks(
            lineage,
            streamed_tables(self.operation.home, spec),
            taking.examined.guarded.payload_fields,
            GuardedAggregates.of(taking.spark, spec.measures),
            spec.sink.keep_events,
            self.lease.check,
            stream=spec.name,
            begun=_SEED_BATCH,
        )
        finished = taken.frame(taking.spark).where(F.col("kind").isin(rows.SESSIONS, rows.QUARANTINE))
        counts = sinks.write(finished, _SEED_BATCH)
        written = [table_key(spec.sink.path, table) for table in counts.tables]
        BatchLog(self.operation.home.lineage(lineage).batches).note_rows(_SEED_BATCH, written)
        self.say(f"tables: {counts[rows.SESSIONS]:,} sessions, {counts[rows.QUARANTINE]:,} rows in quarantine")


def rows_leaving(taking: Taking, home: StreamHome) -> dict[str, int]:
    """Count the rows of each table that a start over deletes, in all folders. Reads only."""
    found = count_changes(taking.spark, home.name, _tables_of(taking, home), deletion_of_all(origins_of(home)))
    counts = Counter[str]()
    for each in found:
        counts[each.table] += each.rows
    return dict(counts)


def _tables_of(taking: Taking, home: StreamHome) -> list[StreamedTable]:
    return tables_in(home, (taking.spec.sink.path, *sink_folders(home, origins_of(home))), STREAMED, {})
