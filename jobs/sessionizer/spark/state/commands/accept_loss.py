"""Runner of a switch that skips the events that are gone from the source, once each loss is approved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.errors import InvalidSpec
from sessionizer.lineage.excluded_ranges import read_excluded_ranges
from sessionizer.lineage.source_ids import choose_known_ids, read_source_ids, replaced_names
from sessionizer.spark.state.commands.moved_position import Move, PositionRunner
from sessionizer.spark.state.lineages.source_losses import going_on
from sessionizer.state.lineages.committed_batch import Position, read_committed_batch
from sessionizer.state.lineages.loss_plan import LossPlan
from sessionizer.stream_spec.decisions import spec_fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.state.commands.command import Plan
    from sessionizer.state.lineages.committed_batch import CommittedBatch
    from sessionizer.state.lineages.lost_events import Continuation

FLAG = "--accept-loss"


@dataclass(kw_only=True)
class LossRunner(PositionRunner):
    """Runner of a switch within the same source by ``spec``, which the stream already uses."""

    def look(self) -> Plan[LossPlan]:
        """Look at the source. Writes nothing.

        Raises InvalidSpec if nothing is lost, SourceUnreachable, SourceMissing, SourceForbidden, and the errors of
        ``read_committed_batch``, which keep a stream from being saved.
        """
        committed = read_committed_batch(self.home)
        found, noted, now = self._compared(committed)
        source = self.spec.source
        anew = replaced_names(choose_known_ids(noted, source.model_dump(), committed.position.offset), now)
        excluded_ranges = read_excluded_ranges(self.home, committed.lineage).drop_topics(anew)
        ids = {**noted, **now} if source.format == "kafka" else {}
        self.move = Move(replace(committed, position=Position(source.format, found.offset)), excluded_ranges, ids)
        return self.command.plan(self._plan_of(committed, found))

    def plan_again(self, record: OperationRecord) -> Plan[LossPlan]:  # noqa: ARG002  the interface
        """Make the plan under the lease. Raises the errors of ``look``."""
        return self.look()

    def _compared(self, committed: CommittedBatch) -> tuple[Continuation, Mapping[str, str], Mapping[str, str]]:
        """Return where the source can be read on, the ids that were noted of it, and those of now."""
        noted, offset = read_source_ids(self.home, committed.lineage), committed.position.offset
        found, now = going_on(self.spark, self.home, self.spec, offset, noted, committed.lineage)
        if not found.lost:
            allowed = "Omit it, because the source has lost no event that the stream needs. Start the stream"
            raise InvalidSpec(FLAG, "given", allowed)
        return found, noted, now

    def _plan_of(self, committed: CommittedBatch, found: Continuation) -> LossPlan:
        return LossPlan(
            stream=self.home.name,
            lineage=committed.lineage,
            batch_id=committed.batch_id,
            fingerprint=spec_fingerprint(self.spec),
            lost=found.lost,
            begins=_begins(self.spec.source.format, found.offset),
            canary=self.command.terms,
        )


def _begins(source: str, offset: Any) -> str:  # noqa: ANN401  JSON
    if source == "files":
        return "the files that were not read and are there"
    if offset is None:
        return "its beginning on"
    if source == "delta":
        return f"version {offset['reservoirVersion']} on"
    return ", ".join(f"{topic} {ends}" for topic, ends in sorted(offset.items()))
