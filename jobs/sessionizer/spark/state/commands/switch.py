"""Runner of a switch: the open sessions go on in a new lineage that reads another source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.lineage.excluded_ranges import read_excluded_ranges
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.lineage.source_ids import read_source_ids
from sessionizer.spark.ingest.topics import topic_ids
from sessionizer.spark.state.commands.moved_position import Move, PositionRunner
from sessionizer.spark.state.lineages.source_beginning import beginning_of, first_event_at, unread_of
from sessionizer.state.lineages.committed_batch import Position, read_committed_batch
from sessionizer.state.lineages.switch_plan import SwitchPlan, require_switch, topics_that_stay
from sessionizer.stream_spec.decisions import changes_between, decisions_of, list_decisions, spec_fingerprint
from sessionizer.stream_spec.loading.spec_file import parse_recorded_spec

if TYPE_CHECKING:
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.spark.state.lineages.source_beginning import Beginning
    from sessionizer.state.commands.command import Plan
    from sessionizer.state.lineages.committed_batch import CommittedBatch
    from sessionizer.state.lineages.switch_plan import Start


@dataclass(kw_only=True)
class SwitchRunner(PositionRunner):
    """Runner of a switch to ``spec``, whose source begins at ``start``."""

    start: Start

    def look(self) -> Plan[SwitchPlan]:
        """Make the plan for a user, with the time of the new source's first events. Writes nothing.

        Raises InvalidSpec if the spec changes too much, or nothing of its source, SourceUnreachable if the new source
        does not answer, and the errors of ``read_committed_batch``, which keep a stream from being saved.
        """
        decision, beginning = self._decide()
        first = first_event_at(self.spark, self.spec, self.home.platform, beginning)
        return self.command.plan(replace(decision, first_event=first))

    def plan_again(self, record: OperationRecord) -> Plan[SwitchPlan]:  # noqa: ARG002  the interface
        """Make the plan under the lease. Raises the errors of ``look``."""
        return self.command.plan(self._decide()[0], is_stopped=True)

    def _decide(self) -> tuple[SwitchPlan, Beginning]:
        """Look at both sources, and keep the new position."""
        committed = read_committed_batch(self.home)
        kept, ids = self._kept(committed)
        beginning = self._beginning(committed, kept)
        excluded_ranges = read_excluded_ranges(self.home, committed.lineage)
        position = Position(self.spec.source.format, beginning.offset)
        moved = replace(committed, position=position, seen_files=beginning.seen)
        self.move = Move(moved, excluded_ranges.select_topics(kept), ids)
        return self._plan_of(committed, beginning, kept), beginning

    def _kept(self, committed: CommittedBatch) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the topics that keep their positions, and the ids of all topics of the new source."""
        source = self.spec.source
        if source.format != "kafka":
            return (), {}
        now = topic_ids(self.spark, self.home.name, source)
        noted = read_source_ids(self.home, committed.lineage)
        return topics_that_stay(committed.spec["source"], source, committed.position.offset, noted, now), now

    def _beginning(self, committed: CommittedBatch, kept: tuple[str, ...]) -> Beginning:
        found = beginning_of(self.spark, self.spec.source, self.home.platform, self.start)
        if not kept:
            return found
        return replace(
            found, offset={**(found.offset or {}), **{topic: committed.position.offset[topic] for topic in kept}}
        )

    def _plan_of(self, committed: CommittedBatch, beginning: Beginning, kept: tuple[str, ...]) -> SwitchPlan:
        changes = changes_between(list_decisions(committed.spec), decisions_of(self.spec))
        require_switch(changes)
        left = parse_recorded_spec(committed.spec, SPEC_FILE.of(self.home, committed.lineage).path)
        rules = left.rules
        return SwitchPlan(
            stream=self.home.name,
            lineage=committed.lineage,
            batch_id=committed.batch_id,
            fingerprint=spec_fingerprint(self.spec),
            start=self.start,
            changes=tuple(map(str, changes)),
            begins=beginning.described,
            unread=unread_of(self.spark, left.source, self.home.platform, committed, kept),
            kept=kept,
            read_until=committed.watermark_ms + rules.watermark_delay_ms if rules.clock.has_watermark else None,
            excluded_ranges=tuple(read_excluded_ranges(self.home, committed.lineage).lines()),
            canary=self.command.terms,
        )
