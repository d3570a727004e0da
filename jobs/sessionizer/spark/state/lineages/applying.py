"""Application of a changed spec to a stopped stream: a savepoint first, then its lineage or a new one uses the spec."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.records.operation_record import Reached
from sessionizer.deployment.refusals import require_whole
from sessionizer.deployment.running_spec import new_record
from sessionizer.deployment.upgrade_plan import APPLY, UPGRADE, UpgradeRequest
from sessionizer.deployment.upgrade_planning import plan_upgrade
from sessionizer.errors import PlanChanged
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import remove_tree
from sessionizer.home.table_places import table_locations
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.applied_migrations import waiting_migrations
from sessionizer.lineage.checkpoint import PARTITIONS, partitions_of
from sessionizer.lineage.fingerprint import note_programs
from sessionizer.lineage.kept_spec import write_lineage_spec
from sessionizer.spark.ingest.kept_types import require_in_reach, require_readable_state
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.sinks.half_written import half_written_batch
from sessionizer.spark.sinks.own_tables import have_tables, require_own_tables_fit
from sessionizer.spark.sinks.table_shapes import STREAMED
from sessionizer.spark.state.lineages.finished_rows import write_finished_rows
from sessionizer.spark.state.lineages.migrated_events import MigratedEvents
from sessionizer.spark.state.lineages.reseeding import Reseeding
from sessionizer.spark.state.lineages.seeding import Seeding
from sessionizer.spark.state.savepoints.savepoint import make_savepoint
from sessionizer.state.lineages.origin import Origin, activated_by
from sessionizer.state.lineages.standing import standing_of
from sessionizer.state.savepoints.making import SavepointRequest
from sessionizer.stream_spec.decisions import changes_between, decided_by, decisions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.deployment.upgrade_plan import UpgradePlan
    from sessionizer.home.data_root import DataPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.trial.judging import Terms
    from sessionizer.spark.sinks.examine import Examined
    from sessionizer.state.lineages.standing import Standing
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class Applying:
    """A change of the stream of ``home`` to ``spec``. ``anew``: in a new lineage even if its own could take the spec.

    ``trial``: of a new lineage. ``savepoints``: the folder for the savepoint of the state before. ``verb``: an upgrade
    takes the installed programs as well. ``accepted``: the differences that a user accepts by name.
    """

    spark: SparkSession
    home: StreamHome
    spec: StreamSpec
    savepoints: DataPath
    anew: bool = False
    trial: Terms | None = None
    verb: str = APPLY
    accepted: tuple[str, ...] = ()

    def plan(self) -> UpgradePlan:
        """Make the plan. Writes nothing.

        Raises InvalidSpec if Spark refuses the spec, or state or tables have values that it cannot take, and the errors
        of ``standing_of``, which keep a stream from being saved.
        """
        standing = self._standing()
        plan = self._plan_of(standing)
        if plan.is_possible:
            self._examined(standing, self._migrated(standing, self.home.seeds))
        return plan

    def run(
        self, operation: Operation, permit: Callable[[], None], after: Callable[[str], None] = lambda _: None
    ) -> OperationRecord:
        """Run the operation under the stream's lease and return its record, done. Killed anywhere it is done again.

        ``after`` is called with each step. Raises PlanChanged if its digest is not that of the plan, HalfWrittenBatch,
        UnfaithfulState, and the errors of ``plan``. Then the stream is as it was.
        """
        lineage = activated_by(self.home, operation.record) or self._applied_in_place(operation.record)
        if lineage is None:
            with operation.abandoned_if_it_fails(before=Reached.ACTIVATED), self._kept_if_activated(operation):
                lineage = self._carried_out(operation, permit, after)
        write_finished_rows(self.spark, self.home, lineage, self._folder(operation), permit)
        return operation.finish(lineage)

    @contextmanager
    def _kept_if_activated(self, operation: Operation) -> Iterator[None]:
        """Remove the results of a migration if the block fails before its lineage is active."""
        try:
            yield
        except Exception:
            if activated_by(self.home, operation.record) is None:
                remove_tree(self._folder(operation))
            raise

    def _applied_in_place(self, record: OperationRecord) -> str | None:
        """Return the lineage that a killed run had given the spec."""
        standing = self._standing()
        is_applied = record.has_done(Reached.SAVED) and not self._plan_of(standing).changes_something
        return active_lineage(self.home) if is_applied else None

    def _carried_out(self, operation: Operation, permit: Callable[[], None], after: Callable[[str], None]) -> str:
        standing = self._standing()
        plan = self._plan_of(standing)
        if plan.digest != operation.record.digest:
            raise PlanChanged(self.home.name, operation.record.digest, plan.digest)
        plan.require_possible()
        migrated = self._migrated(standing, self._folder(operation))
        examined = self._examined(standing, migrated)
        operation.reached(Reached.STOPPED)
        asked = SavepointRequest(
            self.savepoints,
            f"before {self.verb} {operation.record.id}",
            f"{self.verb}-{operation.record.id}",
            live=False,
        )
        after(f"savepoint: {make_savepoint(self.spark, self.home, standing, asked, lambda _: None).id}")
        operation.reached(Reached.SAVED)
        have_tables(self.spark, self.home, self.spec, examined.shapes(self.spec))
        if plan.anew:
            return self._go_on_anew(standing, examined, migrated, permit, after)
        self._require_whole(standing)
        permit()
        write_lineage_spec(self.home, standing.lineage, new_record(self.home, self.spec))
        if self.verb == UPGRADE:
            note_programs(self.home, standing.lineage)
        after("lineage: goes by it")
        return standing.lineage

    def _go_on_anew(
        self,
        standing: Standing,
        examined: Examined,
        migrated: MigratedEvents | None,
        permit: Callable[[], None],
        after: Callable[[str], None],
    ) -> str:
        partitions = partitions_of(standing.settings[PARTITIONS], self.spec.key_groups)
        seeding = Seeding(
            self.spark,
            self.home,
            self.spec,
            examined,
            partitions,
            permit=permit,
            after=lambda step: after(f"new lineage: {step}"),
            trial=self.trial,
        )
        origin = Origin(self.verb, epoch_ms(), standing.lineage, standing.batch_id)
        return Reseeding(seeding, standing, new_record(self.home, self.spec), origin, migrated=migrated).run()

    def _standing(self) -> Standing:
        """Read the stream. Only an upgrade reads a checkpoint of another line of Spark, which its user accepts."""
        return standing_of(self.home, any_engine=self.verb == UPGRADE)

    def _plan_of(self, standing: Standing) -> UpgradePlan:
        request = UpgradeRequest(self.verb, self.accepted, self.anew, self.trial)
        return plan_upgrade(self.home, (standing.lineage, standing.batch_id), self.spec, request)

    def _migrated(self, standing: Standing, folder: DataPath) -> MigratedEvents | None:
        pending = waiting_migrations(self.home, standing.lineage, self.spec)
        return MigratedEvents(self.spark, self.home, standing, pending, folder) if pending else None

    def _folder(self, operation: Operation) -> DataPath:
        return self.home.seeds / operation.record.id

    def _examined(self, standing: Standing, migrated: MigratedEvents | None) -> Examined:
        examined = examine(self.spark, self.spec, self.home.platform)
        if migrated is None:
            require_readable_state(self.home, standing.lineage, self.spec, examined.guarded.payload)
        else:
            require_in_reach(examined.guarded.payload, migrated.kept)
        require_own_tables_fit(self.spark, self.home, self.spec, examined.shapes(self.spec))
        return examined

    def _require_whole(self, standing: Standing) -> None:
        """Require that no batch was cut short after it had written, because it must run again by the spec of then."""
        places = table_locations(self.home, standing.spec["sink"]["path"])
        written = [places[name] for name in STREAMED]
        begun = half_written_batch(self.spark, self.home.checkpoint(standing.lineage), standing.lineage, written)
        require_whole(changes_between(decided_by(standing.spec), decisions_of(self.spec)), begun)
