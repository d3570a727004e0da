"""Runners of the commands that go back: to a savepoint in a new lineage, or to the lineage before.

The rows off the new path leave the tables, then the lineage is activated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyspark.sql import DataFrame

from sessionizer.control.execution import Step
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.deployment.differences import Division, refused
from sessionizer.deployment.running_spec import new_record
from sessionizer.deployment.upgrade_plan import choose_groups
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import newest_version
from sessionizer.home.roots import DataPath, folder_at
from sessionizer.home.stream_home import ANNOUNCED_TIMEOUTS, GROUP_LOGS, SavepointHome
from sessionizer.lineage.active import activate_lineage, active_lineage, require_lineage
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE, ExcludedRanges, keep_excluded_ranges
from sessionizer.lineage.kept_spec import (
    MIGRATIONS_FILE,
    SOURCE_IDS_FILE,
    SPEC_FILE,
    AppliedMigrations,
    LineageSpec,
    SourceIds,
    keep_rescale,
)
from sessionizer.migrations.declared import pending_migrations
from sessionizer.spark.ingest.punctuation import announcement
from sessionizer.spark.sinks.examine import Examined
from sessionizer.spark.sinks.tables import have_tables
from sessionizer.spark.state.commands.runner import FileRunner, SparkRunner
from sessionizer.spark.state.lineages.migrated_events import MigratedEvents, write_finished_rows
from sessionizer.spark.state.lineages.new_lineage import DividedEvents
from sessionizer.spark.state.open_events import FirstLog, KeptState
from sessionizer.spark.state.restores.range_search import SparkFacts
from sessionizer.spark.state.savepoints.saved_state import SavedState, has_table, read_saved_files, read_saved_state
from sessionizer.state.commands.command import Plan
from sessionizer.state.commands.restores import Restore, RestorePlan, Rollback, RollbackPlan
from sessionizer.state.commands.return_plans import (
    can_lead_back,
    changes_before,
    changes_of,
    judge_saved,
    plan_restore,
    plan_rollback,
    replay_now,
    saved_path,
    tables_before,
    tables_of,
)
from sessionizer.state.commands.steps import (
    KeepExcludedRanges,
    KeepSpec,
    NoteTables,
    PrepareTables,
    WriteFinishedSessions,
)
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin, lineage_before, origins_of
from sessionizer.state.lineages.state_transfer import StateTransfer
from sessionizer.state.restores.row_changes import RowChanges, StreamedTable
from sessionizer.state.savepoints.manifest import Manifest, SavepointKind, read_saved_spec
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.rules import Migration
from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(kw_only=True)
class RestoreRunner(FileRunner[Restore]):
    """Runner of a restore of the stream to ``savepoint``.

    ``begun``: excluded ranges of a restore that was begun. ``spec``: the stream's file, if the command reads it.
    ``found``: a plan that was made before.
    """

    savepoint: SavepointHome
    manifest: Manifest
    begun: ExcludedRanges | None = None
    spec: StreamSpec | None = None
    found: RestorePlan | None = None
    _examined: Examined | None = field(default=None, init=False)

    def look(self) -> Plan[RestorePlan]:
        """Make the plan. Writes nothing. Raises the errors of ``plan_restore``, and InvalidSpec, MigrationRefused."""
        command, facts = self.command, SparkFacts(self.spark)
        found = plan_restore(self.home, self.savepoint, self.manifest, facts, command, self.begun)
        if command.reads_file or command.divides_anew:
            spec, same = self._new_spec, frozenset[str]()
            if command.with_file:
                same = self.same_to_spark(self.manifest.spec, spec)
            found = judge_saved(found, self.home, self.manifest, command, spec, self._pending, same)
            if command.with_file and not refused(found.differences):
                types = self._migrated(self.home.seeds, None).kept if self._pending else self.manifest.kept
                self._examined = self.examine_file(spec, types)
        self.found = found
        return command.plan(found)

    def plan_again(self, record: OperationRecord) -> Plan[RestorePlan]:
        """Look once more at the events that the stream reads again, and for a way back. A savepoint does not change."""
        if self.found is None:
            return self.look()
        if record.is_past_return:
            return self.command.plan(self.found)
        replay = replay_now(self.home, self.savepoint, self.manifest, SparkFacts(self.spark), self._out)
        return self.command.plan(replace(self.found, replay=replay, leads_back=can_lead_back(self.home)))

    def run_own(self, step: Step, operation: Operation) -> str | None:
        """Run a step that only a restore has."""
        match step:
            case KeepExcludedRanges():
                keep_excluded_ranges(self.home, operation.record.id, self._out)
            case KeepSpec():
                assert self.spec is not None  # noqa: S101  the plan has the step only then
                operation.note_spec(document_of(self.spec))
            case NoteTables():
                self.made.note_tables(operation.note_tables(self._versions_now()))
            case PrepareTables():
                assert self._examined is not None  # noqa: S101  a plan with the step was examined
                have_tables(self.spark, self.home, self._new_spec, self._examined.shapes(self._new_spec))
            case WriteFinishedSessions():
                before = (read_saved_spec(self.savepoint, self.manifest), self.manifest.kept)
                write_finished_rows(self.spark, self.home, self.activated(operation), before, operation.permit)
            case _:
                return super().run_own(step, operation)
        return None

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage with the state of the savepoint, divided anew if that is wanted."""
        spec, saved_settings = self._new_spec, self.manifest.fingerprint.configuration
        division = Division.read(self.manifest.spec, saved_settings).change(spec.key_groups, self.command.partitions)
        with read_saved_state(self.spark, self.home, self.savepoint, self.manifest, spec.key_groups) as saved:
            events: DataFrame | KeptState | FirstLog | DividedEvents = saved.open_events
            folder = self.home.lineage(self.lineage).migration
            migrated = self._migrated(folder, saved.open_events) if self._pending else None
            if migrated is not None:
                migrated.decide()
                events = migrated.migrate(spec.key_groups)
            transfer = self._transfer(saved, migrated, operation)
            self.start_with(events, transfer, spec, division.partitions, operation, self._examined)

    @cached_property
    def _new_spec(self) -> StreamSpec:
        """The spec that the new lineage goes on by."""
        if self.command.with_file and self.spec is not None:
            base = keep_rescale(self.home, active_lineage(self.home), self.spec)
        else:
            base = read_saved_spec(self.savepoint, self.manifest)
        return choose_groups(base, self.command.key_groups)

    @cached_property
    def _pending(self) -> tuple[Migration, ...]:
        """The file's migrations that the open events of the savepoint have not had. Raises MigrationRefused."""
        if not self.command.with_file:
            return ()
        return pending_migrations(self.home.name, self._new_spec.migrations, self.manifest.migrations)

    def _migrated(self, folder: DataPath, events: DataFrame | KeptState | FirstLog | None) -> MigratedEvents:
        """Return the open events with the pending migrations. ``events``: those of the savepoint, None for a plan."""
        manifest = self.manifest
        if manifest.kind is SavepointKind.CANONICAL and not has_table(manifest, GROUP_LOGS):
            cause = "an earlier release made it without the logs of key groups, so its events cannot be migrated"
            raise UnusableSavepoint(
                manifest.id, f"{cause}. Restore without --with-file, then run `sessionizer upgrade`"
            )
        return MigratedEvents(
            self.spark,
            self.home,
            manifest.committed,
            self._pending,
            folder,
            saved=(self.savepoint, manifest),
            state=events if isinstance(events, KeptState) else None,
            final_by_ms=manifest.watermark_ms,
        )

    def row_changes(self) -> tuple[Sequence[StreamedTable], RowChanges]:
        """Return the tables, and the rows that leave them and come back."""
        return tables_of(self.home, self.manifest), changes_of(self.home, self.manifest)

    def _versions_now(self) -> dict[str, int]:
        tables = {each.location for each in tables_of(self.home, self.manifest)}
        found = {location: newest_version(folder_at(location)) for location in tables}
        return {location: version for location, version in found.items() if version is not None}

    def _origin(self, now: int, operation: Operation) -> Origin:
        """Return the origin of the new lineage, with the path to the savepoint's one if the home lacks its record."""
        manifest, origins = self.manifest, origins_of(self.home)
        return Origin(
            operation.record.verb,
            now,
            manifest.lineage,
            manifest.batch_id,
            manifest.id,
            left=operation.record.lineage_from,
            path=() if manifest.lineage in origins else saved_path(manifest, origins)[:-1],
        )

    def _record(self, now: int) -> LineageSpec:
        """Return the record of the spec. The file's number of key groups is noted for a later edit of it."""
        if self.command.with_file:
            record = new_record(self.home, self._new_spec)
        else:
            document = {**self.manifest.spec, "key_groups": self._new_spec.key_groups}
            record = LineageSpec(document, now).follow(SPEC_FILE.of(self.home, require_lineage(self.home)).require())
        is_chosen = self.command.key_groups is not None
        return replace(record, rescaled_over=self.spec.key_groups) if is_chosen and self.spec else record

    def _transfer(self, saved: SavedState, migrated: MigratedEvents | None, operation: Operation) -> StateTransfer:
        manifest, now, excluded_ranges = self.manifest, epoch_ms(), self._out
        timeouts = saved.timeouts
        applied = manifest.migrations if migrated is None else migrated.applied()
        return StateTransfer(
            origin=self._origin(now, operation),
            spec=self._record(now),
            kept=manifest.kept if migrated is None else migrated.kept,
            watermark_ms=manifest.watermark_ms,
            offset=manifest.position.offset,
            seen=read_saved_files(self.spark, self.savepoint, manifest),
            timeouts=timeouts,
            # what the groups keep was passed on: else a client that the table has lost would keep its own for ever
            records={
                **({ANNOUNCED_TIMEOUTS: announcement(timeouts)} if timeouts else {}),
                **MIGRATIONS_FILE.content(AppliedMigrations(applied)),
                **(EXCLUDED_RANGES_FILE.content(excluded_ranges) if excluded_ranges else {}),
                **(SOURCE_IDS_FILE.content(SourceIds(manifest.source_ids)) if manifest.source_ids else {}),
            },
        )

    @property
    def _out(self) -> ExcludedRanges:
        assert self.found is not None  # noqa: S101  the executor plans first
        return self.found.excluded_ranges


@dataclass(kw_only=True)
class RollbackRunner(SparkRunner[Rollback]):
    """Runner of a rollback."""

    command: Rollback = field(default_factory=Rollback)
    _found: RollbackPlan | None = field(default=None, init=False)

    def look(self) -> Plan[RollbackPlan]:
        """Make the plan. Writes nothing.

        Raises NothingToSave for a stream that never ran, and NoWayBack if the lineage before cannot resume.
        """
        self._found = plan_rollback(self.home, SparkFacts(self.spark))
        return self.command.plan(self._found)

    def row_changes(self) -> tuple[Sequence[StreamedTable], RowChanges]:
        """Return the tables, and the rows that leave them and come back."""
        plan = self._plan
        return tables_before(self.home, plan.leaves), changes_before(self.home, plan.leaves, plan.lineage)

    def activate(self) -> str:
        """Make the lineage before active again, and return it."""
        lineage = self._plan.lineage
        origin = ORIGIN_FILE.of(self.home, lineage).require()
        activate_lineage(self.home, lineage, origin.parent if origin else None, lineage_before(self.home, lineage))
        return lineage

    @property
    def _plan(self) -> RollbackPlan:
        assert self._found is not None  # noqa: S101  the executor plans first
        return self._found
