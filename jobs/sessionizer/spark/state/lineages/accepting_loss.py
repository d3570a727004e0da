"""Command that lets a stream skip the events that are gone from its source, once each loss is approved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.control.records.operation_record import Reached
from sessionizer.errors import InvalidSpec, PlanChanged
from sessionizer.lineage.left_out import read_left_out
from sessionizer.lineage.source_ids import known_ids, read_source_ids, replaced
from sessionizer.spark.state.lineages.moving import Moving
from sessionizer.spark.state.lineages.source_losses import going_on
from sessionizer.state.lineages.loss_plan import LossPlan
from sessionizer.state.lineages.origin import activated_by
from sessionizer.state.lineages.standing import Position, standing_of
from sessionizer.stream_spec.decisions import spec_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from pyspark.sql import SparkSession

    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.trial.judging import Terms
    from sessionizer.state.lineages.handover import Step
    from sessionizer.state.lineages.lost_events import GoingOn
    from sessionizer.state.lineages.standing import Standing
    from sessionizer.stream_spec.document.stream import StreamSpec

FLAG = "--accept-loss"


@dataclass(frozen=True, slots=True)
class AcceptingLoss:
    """A move of the stream of ``home`` in its source by ``spec``, which it already uses.

    Its new lineage is on ``trial``.
    """

    spark: SparkSession
    home: StreamHome
    spec: StreamSpec
    trial: Terms | None = None

    def plan(self) -> LossPlan:
        """Look at the source. Writes nothing.

        Raises InvalidSpec if nothing is lost, SourceUnreachable, SourceMissing, SourceForbidden, and the errors of
        ``standing_of``, which keep a stream from being saved.
        """
        standing = standing_of(self.home)
        return self._plan_of(standing, self._compared(standing)[0])

    def run(
        self, operation: Operation, permit: Callable[[], None], *, after: Callable[[Step], None] = lambda _: None
    ) -> OperationRecord:
        """Return the record of the operation, done.

        Raises PlanChanged, HalfWrittenBatch, UnfaithfulState. Then the stream is as it was.
        """
        lineage = activated_by(self.home, operation.record)
        if lineage is None:
            with operation.abandoned_if_it_fails(before=Reached.ACTIVATED):
                operation.reached(Reached.STOPPED)
                lineage = self.carry_out(operation.record.digest, permit, after=after)
        return operation.finish(lineage)

    def carry_out(
        self, approved: str, permit: Callable[[], None], *, after: Callable[[Step], None] = lambda _: None
    ) -> str:
        """Move the stopped stream, whose lease is ours as long as ``permit`` returns, and return its new lineage.

        Raises PlanChanged if ``approved`` is not the digest of the losses, HalfWrittenBatch, UnfaithfulState, and the
        errors of ``plan``. Then the stream is as it was.
        """
        standing = standing_of(self.home)
        found, noted, now = self._compared(standing)
        plan = self._plan_of(standing, found)
        if plan.digest != approved:
            raise PlanChanged(self.home.name, approved, plan.digest)
        source = self.spec.source
        anew = replaced(known_ids(noted, source.model_dump(), standing.position.offset), now)
        left_out = read_left_out(self.home, standing.lineage).drop_topics(anew)
        ids = {**noted, **now} if source.format == "kafka" else {}
        moving = Moving(self.spark, self.home, self.spec, permit, after, self.trial, ids)
        return moving.run(replace(standing, position=Position(source.format, found.offset)), left_out)

    def _compared(self, standing: Standing) -> tuple[GoingOn, Mapping[str, str], Mapping[str, str]]:
        """Return where the source can be read on, the ids that were noted of it, and those of now."""
        noted, offset = read_source_ids(self.home, standing.lineage), standing.position.offset
        found, now = going_on(self.spark, self.home, self.spec, offset, noted, standing.lineage)
        if not found.lost:
            allowed = "a source that has lost events: this one has all that was not read. Omit it, and start the stream"
            raise InvalidSpec(FLAG, self.home.name, allowed)
        return found, noted, now

    def _plan_of(self, standing: Standing, found: GoingOn) -> LossPlan:
        return LossPlan(
            stream=self.home.name,
            lineage=standing.lineage,
            batch_id=standing.batch_id,
            fingerprint=spec_fingerprint(self.spec),
            lost=found.lost,
            begins=_begins(self.spec.source.format, found.offset),
            trial=self.trial,
        )


def _begins(source: str, offset: Any) -> str:  # noqa: ANN401  JSON
    if source == "files":
        return "the files that were not read and are there"
    if offset is None:
        return "its beginning on"
    if source == "delta":
        return f"version {offset['reservoirVersion']} on"
    return ", ".join(f"{topic} {ends}" for topic, ends in sorted(offset.items()))
