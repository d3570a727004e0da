"""Execution of a restore: a new lineage with the savepoint's state, the later rows deleted, then the lineage activated.

Killed anywhere it is done again from its record: the lineage that was not active yet is made anew, and deleted rows are
not there a second time. From the first row on that leaves a table there is no way but to its end.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.records.operation_record import Reached
from sessionizer.home.clock import epoch_ms
from sessionizer.home.lineage_home import ANNOUNCED_TIMEOUTS, LEFT_OUT, MIGRATIONS, SOURCE_IDS
from sessionizer.lineage.applied_migrations import record_of_applied
from sessionizer.lineage.checkpoint import PARTITIONS
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.lineage.kept_types import KeptTypes
from sessionizer.lineage.left_out import NOTHING_LEFT_OUT, keep_left_out
from sessionizer.lineage.source_ids import record_of_ids
from sessionizer.spark.ingest.timeout_table import announcement
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.state.lineages.seeding import Seeding
from sessionizer.spark.state.restores.restore_planning import changes_of, tables_of
from sessionizer.spark.state.restores.table_rows import change_rows, count_changes
from sessionizer.spark.state.savepoints.saved_state import saved_state, seen_in
from sessionizer.state.lineages.handover import Handover, Step
from sessionizer.state.lineages.origin import Origin, activated_by
from sessionizer.state.restores.restore_plan import VERB
from sessionizer.state.savepoints.manifest import saved_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from sessionizer.control.lease.lease import Lease
    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.savepoint_home import SavepointHome
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.left_out import LeftOut
    from sessionizer.lineage.trial.judging import Terms
    from sessionizer.spark.state.savepoints.saved_state import SavedState
    from sessionizer.state.restores.table_move import TableMove
    from sessionizer.state.savepoints.manifest import Manifest


@dataclass(slots=True)
class Restoring:
    """A restore of the stream of ``home`` to ``savepoint``, under ``lease``. ``operation`` records its progress.

    ``left_out``: the ranges of the source whose rows the new lineage quarantines. ``move``: to another data root, in
    which ``home`` has its data then.
    """

    spark: SparkSession
    home: StreamHome
    savepoint: SavepointHome
    manifest: Manifest
    lease: Lease
    operation: Operation
    say: Callable[[str], None]
    trial: Terms | None = None
    left_out: LeftOut = NOTHING_LEFT_OUT
    move: TableMove | None = None

    def run(self) -> OperationRecord:
        """Run the restore and return its record, done. Raises RowsLeft, UnfaithfulState, LeaseLost."""
        lineage = activated_by(self.home, self.operation.record)
        return self.operation.finish(self._carried_out() if lineage is None else lineage)

    def _carried_out(self) -> str:
        with self.operation.abandoned_if_it_fails(before=Reached.SEEDED):
            if self.left_out:  # first: a run that resumes from the record must find the approved ranges
                keep_left_out(self.home, self.operation.record.id, self.left_out)
            self.operation.reached(Reached.STOPPED)
            with self._tables_moved():
                return self._begin_anew()

    def _tables_moved(self) -> AbstractContextManager[None]:
        if self.move is None:
            return nullcontext()
        return self.move.copied(self.lease.check, for_good=lambda: self.operation.record.has_done(Reached.SEEDED))

    def _begin_anew(self) -> str:
        spec = saved_spec(self.savepoint, self.manifest)
        seeding = Seeding(
            spark=self.spark,
            home=self.home,
            spec=spec,
            examined=examine(self.spark, spec, self.home.platform),
            partitions=int(self.manifest.fingerprint.configuration[PARTITIONS]),
            permit=self.lease.check,
            after=self._finish_step,
            trial=self.trial,
        )
        with saved_state(self.spark, self.home, self.savepoint, self.manifest) as saved:
            return seeding.run(saved.open_events, self._handover(saved))

    def _finish_step(self, step: Step) -> None:
        """Change the rows of the tables when the lineage is whole, just before it becomes the active one."""
        self.say(f"new lineage: {step}")
        if step is Step.FURNISHED:
            self._require_rows()
            self.operation.reached(Reached.SEEDED)
            self._change_rows()
            self.operation.reached(Reached.TAKEN_BACK)

    def _require_rows(self) -> None:
        """Raise RowsGone if rows that should come back were removed since the plan.

        Later there is no way back.
        """
        changes = changes_of(self.home, self.manifest)
        if changes.missing and not self.operation.record.has_done(Reached.SEEDED):
            count_changes(self.spark, self.home.name, tables_of(self.home, self.manifest), changes)

    def _change_rows(self) -> None:
        changes, tables = changes_of(self.home, self.manifest), tables_of(self.home, self.manifest)
        change_rows(self.spark, self.operation, tables, changes, self.lease.check, self.say)

    def _handover(self, saved: SavedState) -> Handover:
        manifest, now, timeouts = self.manifest, epoch_ms(), saved.timeouts
        return Handover(
            origin=Origin(VERB, now, manifest.lineage, manifest.batch_id, manifest.id),
            spec=LineageSpec(dict(manifest.spec), now),
            kept=KeptTypes(manifest.time_mode, manifest.payload_types),
            watermark_ms=manifest.watermark_ms,
            offset=manifest.position.offset,
            seen=seen_in(self.spark, self.savepoint, manifest),
            timeouts=timeouts,
            # what the groups keep was passed on: else a client that the table has lost would keep its own for ever
            records={
                **({ANNOUNCED_TIMEOUTS: announcement(timeouts)} if timeouts else {}),
                MIGRATIONS: record_of_applied(manifest.migrations),
                **({LEFT_OUT: self.left_out.record()} if self.left_out else {}),
                **({SOURCE_IDS: record_of_ids(manifest.source_ids)} if manifest.source_ids else {}),
            },
        )
