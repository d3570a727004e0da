"""Runners whose new lineage goes on after the newest batch: in other key groups, at another position, or by the file.

A rescale divides the state anew. A switch reads another source, or the same one without its lost events. An apply or an
upgrade makes a savepoint first. Then the lineage of a stopped stream, or a new one, uses the changed spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sessionizer.control.execution import Step
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.deployment.running_spec import new_record, require_whole
from sessionizer.deployment.upgrade_plan import UpgradePlan, choose_groups, plan_upgrade
from sessionizer.errors import DamagedFile, InvalidSpec
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import SavepointHome
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE, ExcludedRanges, read_excluded_ranges
from sessionizer.lineage.fingerprint import note_programs
from sessionizer.lineage.kept_spec import (
    SOURCE_IDS_FILE,
    SPEC_FILE,
    TYPES_FILE,
    LineageSpec,
    SourceIds,
    choose_known_ids,
    keep_rescale,
    read_source_ids,
    replaced_names,
    waiting_migrations,
    write_lineage_spec,
)
from sessionizer.spark.ingest.guard import require_readable_state
from sessionizer.spark.ingest.topics import topic_ids
from sessionizer.spark.sinks.examine import Examined, examine, half_written_batch
from sessionizer.spark.sinks.tables import have_tables
from sessionizer.spark.state.commands.restores import RestoreRunner
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.spark.state.lineages.migrated_events import MigratedEvents, write_finished_rows
from sessionizer.spark.state.lineages.source_beginning import (
    Beginning,
    beginning_of,
    first_event_at,
    going_on,
    unread_of,
)
from sessionizer.spark.state.savepoints.saved_state import make_savepoint
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
from sessionizer.state.commands.restores import Restore
from sessionizer.state.commands.steps import (
    CopyCheckpoint,
    NotePrograms,
    PrepareTables,
    WriteFinishedSessions,
    WriteSavepoint,
    WriteSpec,
)
from sessionizer.state.commands.upgrades import Apply
from sessionizer.state.lineages.committed_batch import CommittedBatch, Offset, Position, read_committed_batch
from sessionizer.state.lineages.origin import ORIGIN_FILE
from sessionizer.state.savepoints.listing import complete_savepoint
from sessionizer.state.savepoints.manifest import Manifest
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from sessionizer.stream_spec.decisions import changes_between, decisions_of, list_decisions, spec_fingerprint
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec


@dataclass(kw_only=True)
class RescaleRunner(SparkRunner[Rescale]):
    """Runner of a rescale. ``key_groups``: the number in the stream's file."""

    key_groups: int
    _found: tuple[CommittedBatch, RescalePlan] = field(init=False)

    def look(self) -> Plan[RescalePlan]:
        """Make the plan. Raises the errors of ``read_committed_batch``, which keep a stream from being saved."""
        committed = read_committed_batch(self.home)
        plan = self.command.plan(self.home.name, committed, self.key_groups)
        self._found = committed, plan.decision
        return plan

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage. An approval of the file's spec that waits for the next driver stays."""
        committed, decision = self._found
        file = SPEC_FILE.of(self.home, committed.lineage)
        document, kept = {**committed.spec, "key_groups": decision.now.key_groups}, file.require()
        record = LineageSpec(document, epoch_ms(), kept.desired_at if kept else 0, rescaled_over=self.key_groups)
        spec = parse_recorded_spec(document, file.path)
        self.start_after(operation, committed, spec, record, partitions=decision.now.partitions)


class Move(NamedTuple):
    """A batch with its new position, the ranges that stay excluded, and the ids of topics with a position."""

    committed: CommittedBatch
    excluded_ranges: ExcludedRanges
    ids: Mapping[str, str]


@dataclass(kw_only=True)
class PositionRunner(SparkRunner[Switch]):
    """Runner of a command whose new lineage, by ``spec``, has another position in its source."""

    spec: StreamSpec
    move: Move = field(init=False)

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage. Raises HalfWrittenBatch."""
        committed, excluded_ranges, ids = self.move
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
        """Make the plan, with the time of the first events. Writes nothing. Raises InvalidSpec, SourceUnreachable."""
        decision, beginning = self._decide()
        first = first_event_at(self.spark, self.spec, self.home.platform, beginning)
        return self.command.plan(replace(decision, first_event=first))

    def plan_again(self, record: OperationRecord) -> Plan[SwitchPlan]:  # noqa: ARG002  the interface
        """Make the plan under the lease. Raises the errors of ``look``."""
        return self.command.plan(self._decide()[0], is_stopped=True)

    def _decide(self) -> tuple[SwitchPlan, Beginning]:
        """Look at both sources, and keep the new position. Topics that are in both keep theirs."""
        committed, source = read_committed_batch(self.home), self.spec.source
        lineage, position, kept, ids = committed.lineage, committed.position.offset, tuple[str, ...](), dict[str, str]()
        if source.format == "kafka":
            ids, noted = topic_ids(self.spark, self.home.name, source), read_source_ids(self.home, lineage)
            kept = topics_that_stay(committed.spec["source"], source, position, noted, ids)
        beginning = beginning_of(self.spark, source, self.home.platform, self.start)
        if kept:
            stays = {topic: position[topic] for topic in kept}
            beginning = replace(beginning, offset={**(beginning.offset or {}), **stays})
        excluded_ranges = read_excluded_ranges(self.home, lineage)
        position_now = Position(source.format, beginning.offset)
        moved = replace(committed, position=position_now, seen_files=beginning.seen)
        self.move = Move(moved, excluded_ranges.select_topics(kept), ids)
        changes = changes_between(list_decisions(committed.spec), decisions_of(self.spec))
        require_switch(changes)
        left = parse_recorded_spec(committed.spec, SPEC_FILE.of(self.home, lineage).path)
        rules = left.rules
        decision = SwitchPlan(
            stream=self.home.name,
            lineage=lineage,
            batch_id=committed.batch_id,
            fingerprint=spec_fingerprint(self.spec),
            start=self.start,
            changes=tuple(map(str, changes)),
            begins=beginning.described,
            unread=unread_of(self.spark, left.source, self.home.platform, committed, kept),
            kept=kept,
            read_until=committed.watermark_ms + rules.watermark_delay_ms if rules.clock.has_watermark else None,
            excluded_ranges=tuple(excluded_ranges.lines()),
            canary=self.command.terms,
        )
        return decision, beginning


@dataclass(kw_only=True)
class LossRunner(PositionRunner):
    """Runner of a switch within the same source by ``spec``, which the stream already uses."""

    def look(self) -> Plan[LossPlan]:
        """Look at the source. Writes nothing. Raises InvalidSpec if nothing is lost, SourceUnreachable."""
        committed, source = read_committed_batch(self.home), self.spec.source
        noted, offset = read_source_ids(self.home, committed.lineage), committed.position.offset
        found, now = going_on(self.spark, self.home, self.spec, offset, noted, committed.lineage)
        if not found.lost:
            allowed = "Omit it, because the source has lost no event that the stream needs. Start the stream"
            raise InvalidSpec("--accept-loss", "given", allowed)
        anew = replaced_names(choose_known_ids(noted, source.model_dump(), offset), now)
        excluded_ranges = read_excluded_ranges(self.home, committed.lineage).drop_topics(anew)
        ids = {**noted, **now} if source.format == "kafka" else {}
        self.move = Move(replace(committed, position=Position(source.format, found.offset)), excluded_ranges, ids)
        fingerprint, begins = spec_fingerprint(self.spec), _begins(source.format, found.offset)
        left = (committed.lineage, committed.batch_id)
        decision = LossPlan(self.home.name, *left, fingerprint, found.lost, begins, self.command.terms)
        return self.command.plan(decision)


def _begins(source: str, offset: Offset) -> str:
    if source == "files":
        return "the files that were not read and are there"
    if offset is None:
        return "its beginning on"
    if source == "delta":
        return f"version {offset['reservoirVersion']} on"
    return ", ".join(f"{topic} {ends}" for topic, ends in sorted(offset.items()))


@dataclass(kw_only=True)
class ApplyRunner(SparkRunner[Apply]):
    """Runner of a change to the file's ``spec``. ``new_spec``: in the key groups of a rescale."""

    spec: StreamSpec
    savepoints: DataPath
    new_spec: StreamSpec = field(init=False)
    _looked: tuple[CommittedBatch, Examined] = field(init=False)
    _saved: tuple[SavepointHome, Manifest] | None = field(default=None, init=False)
    _replays: bool = field(default=False, init=False)
    _restore: RestoreRunner | None = field(default=None, init=False)

    @contextmanager
    def prepared(self, record: OperationRecord) -> Iterator[None]:
        """Make a savepoint and the new lineage from it while the stream runs, if so planned. Raises EventsGone."""
        with ExitStack() as stack:
            if self._replays:
                restore = self._restore_of(record)
                restore.look().require_possible()
                stack.enter_context(restore.prepared(record))
            yield

    def plan_again(self, record: OperationRecord) -> Plan[UpgradePlan]:
        """Make the plan under the lease. One that replays needs the events since its savepoint as well."""
        plan = self.look()
        if self._replays and plan.refusal is None:
            return replace(plan, refusal=self._restore_of(record).plan_again(record).refusal)
        return plan

    def run(self, step: Step, operation: Operation) -> str | None:
        """Run a step. Those of a plan that replays are the steps of a restore by the file."""
        if self._replays:
            return self._restore_of(operation.record).run(step, operation)
        return super().run(step, operation)

    def clean_up(self, operation: Operation) -> None:
        """Remove the new lineage of a failed try."""
        super().clean_up(operation)
        if self._restore is not None:
            self._restore.clean_up(operation)

    def _restore_of(self, record: OperationRecord) -> RestoreRunner:
        """Return the restore to the operation's savepoint, which is made first. Raises UnknownSavepoint."""
        if self._restore is None:
            asked, request = self.command, self._savepoint_request(record.id)
            if record.is_past_return:  # another one would not be of the batch whose later rows are deleted
                savepoint, made = complete_savepoint(self.savepoints, str(request.id), epoch_ms())
            else:
                committed = read_committed_batch(self.home, to_upgrade=asked.takes_programs)
                made = make_savepoint(self.spark, self.home, committed, request, lambda _: None)
                savepoint = SavepointHome.of(self.savepoints, made.id)
                self.say(f"savepoint: {made.id}")
            self._restore = RestoreRunner(
                spark=self.spark,
                home=self.home,
                say=self.say,
                command=Restore(
                    savepoint=made.id,
                    with_file=True,
                    accept=asked.accept,
                    key_groups=asked.request.key_groups,
                    partitions=asked.request.partitions,
                    canary=asked.canary,
                    roll_back_if_failed=asked.roll_back_if_failed,
                    releases=asked.releases,
                ),
                savepoint=savepoint,
                manifest=made,
                spec=self.spec,
            )
        return self._restore

    def look(self) -> Plan[UpgradePlan]:
        """Make the plan. Writes nothing. Raises InvalidSpec for values that the spec cannot take."""
        committed = read_committed_batch(self.home, to_upgrade=self.command.takes_programs)
        at, request = (committed.lineage, committed.batch_id), self.command.request
        self.new_spec = choose_groups(keep_rescale(self.home, committed.lineage, self.spec), request.key_groups)
        same = self.same_to_spark(committed.spec, self.new_spec)
        plan = self.command.plan(plan_upgrade(self.home, at, self.spec, request, same))
        self._replays = plan.decision.replays
        if plan.is_needed and not plan.decision.refused:
            migrated = self._migrated(committed, self.home.seeds)
            self._looked = committed, self.examine_file(self.new_spec, migrated.kept if migrated else committed.kept)
        return plan

    def run_own(self, step: Step, operation: Operation) -> str | None:
        """Run a step that only an apply has."""
        match step:
            case WriteSavepoint():
                self._write_savepoint(step, self._looked[0], operation.record.id)
            case PrepareTables():
                have_tables(self.spark, self.home, self.new_spec, self._looked[1].shapes(self.new_spec))
            case WriteFinishedSessions():
                self._write_finished(operation)
            case WriteSpec():
                committed = self._looked[0]
                lineage, written = committed.lineage, self.home.streamed_locations(committed.spec["sink"]["path"])
                # a batch that was cut short after it had written must run again by the spec of then
                begun = half_written_batch(self.spark, self.home, lineage, written.values())
                require_whole(changes_between(list_decisions(committed.spec), decisions_of(self.new_spec)), begun)
                operation.permit()
                write_lineage_spec(self.home, lineage, new_record(self.home, self.new_spec))
                self.say("lineage: the approved spec is recorded")
                return lineage
            case NotePrograms():
                note_programs(self.home, self.activated(operation))
            case _:
                return super().run_own(step, operation)
        return None

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage. Raises HalfWrittenBatch."""
        committed, examined = self._looked
        request, record = self.command.request, new_record(self.home, self.new_spec)
        if request.key_groups is not None:
            record = replace(record, rescaled_over=self.spec.key_groups)
        new, migrated = self.new_spec, self._migrated(committed, self.home.lineage(self.lineage).migration)
        self.start_after(
            operation, committed, new, record, partitions=request.partitions, examined=examined, migrated=migrated
        )

    def _write_finished(self, operation: Operation) -> None:
        lineage = self.activated(operation)
        origin = ORIGIN_FILE.of(self.home, lineage).require()
        parent = (origin.parent if origin else None) or lineage
        file, kept = SPEC_FILE.of(self.home, parent), TYPES_FILE.of(self.home, parent).require()
        record = file.require()
        if record is None or kept is None:
            raise DamagedFile(uri_of(self.home.lineage(parent).root), "it lacks spec.json or types.json")
        before = parse_recorded_spec(record.document, file.path), kept
        write_finished_rows(self.spark, self.home, lineage, before, operation.permit)

    def _write_savepoint(self, step: WriteSavepoint, committed: CommittedBatch, operation: str) -> None:
        asked = replace(self._savepoint_request(operation), live=False)
        if isinstance(step, CopyCheckpoint):
            made = make_native_savepoint(self.home, committed, asked, lambda _: None)
        else:
            made = make_savepoint(self.spark, self.home, committed, asked, lambda _: None)
            self._saved = SavepointHome.of(self.savepoints, made.id), made
        self.say(f"savepoint: {made.id}")

    def _savepoint_request(self, operation: str) -> SavepointRequest:
        """Return the savepoint of the operation. Typed rows would be most of its time."""
        own = f"{self.command.name}-{operation}"
        why = f"before {self.command.name} {operation}"
        return SavepointRequest(self.savepoints, why, own, with_rows=False, within=operation)

    def _migrated(self, committed: CommittedBatch, folder: DataPath) -> MigratedEvents | None:
        stateless = self.command.request.stateless
        pending = waiting_migrations(self.home, committed.lineage, self.new_spec)
        if not pending and not stateless:
            return None
        return MigratedEvents(self.spark, self.home, committed, pending, folder, stateless, self._saved)
