"""A switch of the source: its plan, and the open sessions in a new lineage that reads another source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.control.records.operation_record import Reached
from sessionizer.core.definition.rules import TimeMode
from sessionizer.errors import EventsUnread, PlanChanged
from sessionizer.lineage.left_out import read_left_out
from sessionizer.lineage.source_ids import read_source_ids
from sessionizer.spark.ingest.topics import topic_ids
from sessionizer.spark.state.lineages.moving import Moving
from sessionizer.spark.state.lineages.source_beginning import beginning_of, first_event_at, unread_of
from sessionizer.state.lineages.origin import activated_by
from sessionizer.state.lineages.standing import Position, standing_of
from sessionizer.state.lineages.switch_plan import SwitchPlan, require_switch, topics_that_stay
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
    """A switch of the stream of ``home`` to ``spec``, whose source begins at ``start``.

    Its new lineage is on ``trial``.
    """

    spark: SparkSession
    home: StreamHome
    spec: StreamSpec
    start: Start
    trial: Terms | None = None
    leave_unread: bool = False
    """Whether to switch even if the old source has more that was not read."""

    def plan(self) -> SwitchPlan:
        """Make the plan. Writes nothing.

        Raises InvalidSpec if the spec changes too much, or nothing of its source, SourceUnreachable if the new source
        does not answer, and the errors of ``standing_of``, which keep a stream from being saved.
        """
        standing = standing_of(self.home)
        kept, _ = self._kept(standing)
        beginning = self._beginning(standing, kept)
        plan = self._plan_of(standing, beginning, kept)
        return replace(plan, first_event=first_event_at(self.spark, self.spec, self.home.platform, beginning))

    def run(
        self,
        operation: Operation,
        permit: Callable[[], None],
        *,
        after: Callable[[Step], None] = lambda _: None,
    ) -> OperationRecord:
        """Run the operation, and return its record, done.

        Raises PlanChanged, EventsUnread, HalfWrittenBatch, UnfaithfulState, and the errors of ``plan``. Then the stream
        is as it was.
        """
        lineage = activated_by(self.home, operation.record)
        if lineage is None:
            with operation.abandoned_if_it_fails(before=Reached.ACTIVATED):
                operation.reached(Reached.STOPPED)
                lineage = self.carry_out(operation.record.digest, permit, leave_unread=self.leave_unread, after=after)
        return operation.finish(lineage)

    def carry_out(
        self,
        approved: str,
        permit: Callable[[], None],
        *,
        leave_unread: bool = False,
        after: Callable[[Step], None] = lambda _: None,
    ) -> str:
        """Switch a stopped stream whose lease is ours as long as ``permit`` returns.

        Returns the new lineage, active by then.

        Raises PlanChanged if ``approved`` is not the digest of the plan, EventsUnread if the old source has more,
        unless ``leave_unread``, HalfWrittenBatch, UnfaithfulState, and the errors of ``plan``. Then the stream is as it
        was.
        """
        standing = standing_of(self.home)
        kept, now = self._kept(standing)
        beginning = self._beginning(standing, kept)
        plan = self._plan_of(standing, beginning, kept)
        if plan.digest != approved:
            raise PlanChanged(self.home.name, approved, plan.digest)
        if plan.unread.items and not leave_unread:
            raise EventsUnread(self.home.name, plan.unread.items, plan.unread.unit)
        moving = Moving(self.spark, self.home, self.spec, permit, after, self._terms, now)
        moved = replace(
            standing, position=Position(self.spec.source.format, beginning.offset), seen_files=beginning.seen
        )
        return moving.run(moved, read_left_out(self.home, standing.lineage).select_topics(kept))

    @property
    def _terms(self) -> Terms | None:
        """Return the trial's terms without late rows.

        Events that a new source brings once more are late on purpose.
        """
        return self.trial and replace(self.trial, judges_late=False)

    def _kept(self, standing: Standing) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the topics that keep their positions, and the ids of all topics of the new source."""
        source = self.spec.source
        if source.format != "kafka":
            return (), {}
        now = topic_ids(self.spark, self.home.name, source)
        noted = read_source_ids(self.home, standing.lineage)
        return topics_that_stay(standing.spec["source"], source, standing.position.offset, noted, now), now

    def _beginning(self, standing: Standing, kept: tuple[str, ...]) -> Beginning:
        found = beginning_of(self.spark, self.spec.source, self.home.platform, self.start)
        if not kept:
            return found
        return replace(
            found, offset={**(found.offset or {}), **{topic: standing.position.offset[topic] for topic in kept}}
        )

    def _plan_of(self, standing: Standing, beginning: Beginning, kept: tuple[str, ...]) -> SwitchPlan:
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
            unread=unread_of(self.spark, left.source, self.home.platform, standing, kept),
            kept=kept,
            read_until=standing.watermark_ms + left.rules.watermark_delay_ms if by_events else None,
            left_out=tuple(read_left_out(self.home, standing.lineage).lines()),
            trial=self.trial,
        )
