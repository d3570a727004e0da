"""Runners whose new lineage goes on after the newest batch: in other key groups, or at another position.

A rescale divides the state anew. A switch reads another source, or the same one without its lost events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.deployment.running_spec import new_record
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE, ExcludedRanges, read_excluded_ranges
from sessionizer.lineage.kept_spec import (
    SOURCE_IDS_FILE,
    SPEC_FILE,
    LineageSpec,
    SourceIds,
    choose_known_ids,
    read_source_ids,
    replaced_names,
)
from sessionizer.spark.ingest.guard import require_readable_state
from sessionizer.spark.ingest.topics import topic_ids
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.spark.state.lineages.source_beginning import (
    Beginning,
    beginning_of,
    first_event_at,
    going_on,
    unread_of,
)
from sessionizer.state.commands.command import Plan
from sessionizer.state.commands.moves import (
    LossPlan,
    Rescale,
    RescalePlan,
    Start,
    Switch,
    SwitchPlan,
    require_switch,
    topics_that_stay,
)
from sessionizer.state.lineages.committed_batch import CommittedBatch, Position, read_committed_batch
from sessionizer.state.lineages.lost_events import Continuation
from sessionizer.stream_spec.decisions import changes_between, decisions_of, list_decisions, spec_fingerprint
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec


@dataclass(kw_only=True)
class RescaleRunner(SparkRunner[Rescale]):
    """Runner of a rescale. ``key_groups``: the number in the stream's file."""

    key_groups: int
    _found: tuple[CommittedBatch, RescalePlan] | None = field(default=None, init=False)

    def look(self) -> Plan[RescalePlan]:
        """Make the plan. Raises the errors of ``read_committed_batch``, which keep a stream from being saved."""
        committed = read_committed_batch(self.home)
        plan = self.command.plan(self.home.name, committed, self.key_groups)
        self._found = committed, plan.decision
        return plan

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage. An approval of the file's spec that waits for the next driver stays."""
        assert self._found is not None  # noqa: S101  the executor plans first
        committed, decision = self._found
        file = SPEC_FILE.of(self.home, committed.lineage)
        document, kept = {**committed.spec, "key_groups": decision.now.key_groups}, file.require()
        record = LineageSpec(document, epoch_ms(), kept.desired_at if kept else 0, rescaled_over=self.key_groups)
        spec = parse_recorded_spec(document, file.path)
        self.start_after(operation, committed, spec, record, partitions=decision.now.partitions)


@dataclass(frozen=True, slots=True)
class Move:
    """Position of the new lineage in its source, which ``committed`` has.

    ``excluded_ranges``: those that stay excluded. ``ids``: of each topic that the lineage has a position in.
    """

    committed: CommittedBatch
    excluded_ranges: ExcludedRanges
    ids: Mapping[str, str]


@dataclass(kw_only=True)
class PositionRunner(SparkRunner[Switch]):
    """Runner of a command whose new lineage, by ``spec``, has another position in its source."""

    spec: StreamSpec
    move: Move | None = field(default=None, init=False)

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage. Raises HalfWrittenBatch."""
        assert self.move is not None  # noqa: S101  the executor plans first
        committed, excluded_ranges, ids = self.move.committed, self.move.excluded_ranges, self.move.ids
        examined = examine(self.spark, self.spec, self.home.platform)
        require_readable_state(self.home, committed.lineage, self.spec, examined.guarded.payload)
        records = EXCLUDED_RANGES_FILE.content(excluded_ranges) if excluded_ranges else {}
        records = {**records, **(SOURCE_IDS_FILE.content(SourceIds(ids)) if ids else {})}
        record = new_record(self.home, self.spec)
        self.start_after(operation, committed, self.spec, record, examined=examined, same_source=False, records=records)


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

    def _compared(self, committed: CommittedBatch) -> tuple[Continuation, Mapping[str, str], Mapping[str, str]]:
        """Return where the source can be read on, the ids that were noted of it, and those of now."""
        noted, offset = read_source_ids(self.home, committed.lineage), committed.position.offset
        found, now = going_on(self.spark, self.home, self.spec, offset, noted, committed.lineage)
        if not found.lost:
            allowed = "Omit it, because the source has lost no event that the stream needs. Start the stream"
            raise InvalidSpec("--accept-loss", "given", allowed)
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
