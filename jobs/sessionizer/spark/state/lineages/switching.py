"""A switch of the source: what it would do, and the open sessions in a new lineage that reads another source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.control.records.operation_record import Reached
from sessionizer.core.definition.rules import TimeMode
from sessionizer.deployment.running_spec import new_record
from sessionizer.errors import EventsUnread, PlanChanged
from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.checkpoint import PARTITIONS, partitions_of
from sessionizer.lineage.left_out import read_left_out
from sessionizer.spark.ingest.kept_types import require_readable_state
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.state.lineages.reseeding import Reseeding
from sessionizer.spark.state.lineages.seeding import Seeding
from sessionizer.spark.state.lineages.source_beginning import beginning_of, first_event_at, unread_of
from sessionizer.state.lineages.origin import Origin, activated_by
from sessionizer.state.lineages.standing import Position, standing_of
from sessionizer.state.lineages.switch_plan import VERB, SwitchPlan, require_switch
from sessionizer.stream_spec.decisions import changes_between, decided_by, decisions_of, spec_fingerprint
from sessionizer.stream_spec.loading.spec_file import recorded_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.trial.judging import Terms
    from sessionizer.spark.state.lineages.source_beginning import Beginning
    from sessionizer.state.lineages.handover import Step
    from sessionizer.state.lineages.standing import Standing
    from sessionizer.state.lineages.switch_plan import Start
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class Switching:
    """The stream of ``home`` goes on by ``spec``, whose source begins at ``start``; its new lineage is on ``trial``."""

    spark: SparkSession
    home: StreamHome
    spec: StreamSpec
    start: Start
    trial: Terms | None = None

    def plan(self) -> SwitchPlan:
        """What would be done. Writes nothing.

        Raises InvalidSpec where the spec changes too much, or nothing of its source, SourceUnreachable where the new
        source does not answer, and what keeps a stream from being saved (``standing_of``).
        """
        beginning = self._beginning()
        plan = self._plan_of(standing_of(self.home), beginning)
        return replace(plan, first_event=first_event_at(self.spark, self.spec, self.home.platform, beginning))

    def run(
        self,
        operation: Operation,
        permit: Callable[[], None],
        *,
        leave_unread: bool = False,
        after: Callable[[Step], None] = lambda _: None,
    ) -> OperationRecord:
        """The record of the operation, done. Raises as ``carry_out``: then the stream is as it was."""
        lineage = activated_by(self.home, operation.record)
        if lineage is None:
            with operation.abandoned_if_it_fails(before=Reached.ACTIVATED):
                operation.reached(Reached.STOPPED)
                lineage = self.carry_out(operation.record.digest, permit, leave_unread=leave_unread, after=after)
        return operation.over(lineage)

    def carry_out(
        self,
        approved: str,
        permit: Callable[[], None],
        *,
        leave_unread: bool = False,
        after: Callable[[Step], None] = lambda _: None,
    ) -> str:
        """The new lineage, active by then, of a stopped stream whose lease is ours as long as ``permit`` returns.

        Raises PlanChanged where ``approved`` is not the digest of what would be done, EventsUnread where the old source
        has more, unless ``leave_unread``, HalfWrittenBatch, UnfaithfulState, and as ``plan``. Then the stream is as it
        was.
        """
        standing, beginning = standing_of(self.home), self._beginning()
        plan = self._plan_of(standing, beginning)
        if plan.digest != approved:
            raise PlanChanged(self.home.name, approved, plan.digest)
        if plan.unread.items and not leave_unread:
            raise EventsUnread(self.home.name, plan.unread.items, plan.unread.unit)
        examined = examine(self.spark, self.spec, self.home.platform)
        require_readable_state(self.home, standing.lineage, self.spec, examined.guarded.payload)
        partitions = partitions_of(standing.settings[PARTITIONS], self.spec.key_groups)
        seeding = Seeding(
            self.spark, self.home, self.spec, examined, partitions, permit=permit, after=after, trial=self._terms
        )
        moved = replace(
            standing, position=Position(self.spec.source.format, beginning.offset), seen_files=beginning.seen
        )
        origin = Origin(VERB, epoch_ms(), standing.lineage, standing.batch_id)
        record = new_record(self.home, self.spec)
        return Reseeding(seeding, moved, record, origin, same_source=False).run()

    @property
    def _terms(self) -> Terms | None:
        """What a new source brings once more is late, and meant to be."""
        return self.trial and replace(self.trial, judges_late=False)

    def _beginning(self) -> Beginning:
        return beginning_of(self.spark, self.spec.source, self.home.platform, self.start)

    def _plan_of(self, standing: Standing, beginning: Beginning) -> SwitchPlan:
        changes = changes_between(decided_by(standing.spec), decisions_of(self.spec))
        require_switch(changes)
        left = recorded_spec(standing.spec, self.home.lineage(standing.lineage).spec)
        by_events = left.rules.time_mode == TimeMode.EVENT_TIME
        return SwitchPlan(
            stream=self.home.name,
            lineage=standing.lineage,
            batch_id=standing.batch_id,
            fingerprint=spec_fingerprint(self.spec),
            start=self.start,
            changes=tuple(map(str, changes)),
            begins=beginning.described,
            unread=unread_of(self.spark, left.source, self.home.platform, standing),
            read_until=standing.watermark_ms + left.rules.watermark_delay_ms if by_events else None,
            left_out=tuple(read_left_out(self.home, standing.lineage).lines()),
            trial=self.trial,
        )
