"""Runners of the commands that go back: to a savepoint in a new lineage, or to the lineage before, and their facts.

The rows off the new path leave the tables, then the lineage is activated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession

from sessionizer.checkpoint.files import SeenFile
from sessionizer.control.execution import Step
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.deployment.differences import Division, refused
from sessionizer.deployment.running_spec import new_record
from sessionizer.deployment.upgrade_plan import choose_groups
from sessionizer.errors import InvalidSpec, UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import commits_of, list_added_files, newest_version, read_actions
from sessionizer.home.roots import DataPath, folder_at, is_uri, resolve_place
from sessionizer.home.stream_home import GROUP_LOGS, SavepointHome, StreamHome
from sessionizer.lineage.active import activate_lineage, active_lineage, require_lineage
from sessionizer.lineage.excluded_ranges import (
    EXCLUDED_RANGES_FILE,
    ExcludedRange,
    ExcludedRanges,
    Records,
    keep_excluded_ranges,
)
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
from sessionizer.spark.ingest.punctuation import ANNOUNCED_FILE, AnnouncedTimeouts
from sessionizer.spark.ingest.source import check_reachable
from sessionizer.spark.sinks.examine import Examined
from sessionizer.spark.sinks.tables import have_tables
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.spark.state.lineages.migrated_events import MigratedEvents, write_finished_rows
from sessionizer.spark.state.lineages.new_lineage import State
from sessionizer.spark.state.lineages.source_beginning import files_there, list_lost_events, offsets_at
from sessionizer.spark.state.open_events import FirstLog, KeptState
from sessionizer.spark.state.restores.table_rows import count_from_files
from sessionizer.spark.state.savepoints.saved_state import has_table, read_saved_files, read_saved_state
from sessionizer.state.commands.command import Plan
from sessionizer.state.commands.moves import Edge, Start
from sessionizer.state.commands.restores import Restore, RestorePlan, Rollback, RollbackPlan
from sessionizer.state.commands.return_plans import (
    FileFacts,
    can_lead_back,
    carried_ranges,
    changes_before,
    changes_of,
    files_read,
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
from sessionizer.state.lineages.committed_batch import Offset, StateTransfer
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin, lineage_before, origins_of
from sessionizer.state.restores.ranges import (
    FLAG,
    FileNames,
    FileTimes,
    RecordTimes,
    ResolvedRanges,
    Span,
    Versions,
    combine_ranges,
    exclude_files,
    exclude_records,
    exclude_versions,
    first_whole_version,
    parse_range,
    records_in_span,
    remarks_on_files,
)
from sessionizer.state.restores.row_changes import RowChanges, RowsOfTable, StreamedTable
from sessionizer.state.savepoints.manifest import Manifest, SavepointKind, read_saved_spec
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.rules import Migration
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource, KafkaSource
from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True)
class SparkFacts(FileFacts):
    """Facts that ``spark`` tells if files do not. Reads no row of the source, and changes nothing."""

    spark: SparkSession

    @property
    def spark_version(self) -> str:
        """Version of the running Spark."""
        return self.spark.version

    def count_changes(self, stream: str, tables: Sequence[StreamedTable], changes: RowChanges) -> list[RowsOfTable]:
        """Count the rows that leave each table and come back. Raises RowsGone, DataAway, UnwritablePath."""
        return count_from_files(self.spark, stream, tables, changes)

    def read_saved_files(self, savepoint: SavepointHome, manifest: Manifest) -> Sequence[SeenFile]:
        """Return the files that the source had read after the savepoint's batch, if it is a folder of files."""
        return read_saved_files(self.spark, savepoint, manifest)

    def list_lost_events(
        self, home: StreamHome, spec: StreamSpec, offset: Offset, noted: Mapping[str, str]
    ) -> tuple[str, ...]:
        """List the events after ``offset`` that a topic or table no longer has, as texts."""
        return list_lost_events(self.spark, home, spec, offset, noted)

    def resolve_ranges(
        self, home: StreamHome, savepoint: SavepointHome, manifest: Manifest, typed: Sequence[str]
    ) -> ResolvedRanges:
        """Resolve the exclusions of a restore: those of the savepoint's lineage, and the ``typed`` ones.

        A file that was read since and is gone by now may be excluded, too: its rows are lost, and the user confirms
        that. Raises InvalidSpec, naming what is allowed, SourceUnreachable, DamagedFile.
        """
        found = [self._resolve(home, savepoint, manifest, each) for each in dict.fromkeys(typed)]
        ranges = [each for some, _ in found for each in some]
        remarks = [remark for _, remarks in found for remark in remarks]
        return combine_ranges(carried_ranges(home, manifest), ranges, remarks)

    def _resolve(
        self, home: StreamHome, savepoint: SavepointHome, manifest: Manifest, typed: str
    ) -> tuple[list[ExcludedRange], list[str]]:
        """Resolve ``typed`` in the source that the stream reads after the restore, with remarks for the user."""
        source, offset = read_saved_spec(savepoint, manifest).source, manifest.position.offset
        wanted = parse_range(typed, source.format)
        match wanted, source:
            case FileNames() | FileTimes(), FilesSource():
                there = files_there(self.spark, source, home.platform)
                before = [file.uri for file in read_saved_files(self.spark, savepoint, manifest)]
                folder = _uri(resolve_place(source.path, home.platform))
                found, stay = exclude_files(typed, wanted, folder, [*there, *files_read(home)], before)
                return [found], remarks_on_files(found, stay, there)
            case Records() | RecordTimes(), KafkaSource():
                check_reachable(source)
                at = partial(offsets_at, self.spark, source, home.platform)
                if isinstance(wanted, Records):
                    return [exclude_records(typed, wanted, offset, at(Start(edge=Edge.LATEST)))], []
                span = Span(at(Start(at=wanted.since)), at(Start(at=wanted.until)), offset)
                return records_in_span(typed, wanted, span, at(Start(edge=Edge.LATEST)))
            case Versions(), DeltaSource():
                first, table = first_whole_version(offset), resolve_place(source.path, home.platform)
                if first is None:
                    allowed = "Omit it, because the stream had not begun to read the table at the savepoint"
                    raise InvalidSpec(FLAG, typed, allowed)
                return [exclude_versions(typed, wanted, first, dict(_added_files(table, first)))], []
        raise AssertionError(typed)  # of each source there is one kind of range


def _added_files(table: str, first: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each version from ``first`` on with the URIs of the files of rows that it brought."""
    for version, commit in commits_of(folder_at(table)).items():
        if version >= first:
            # Delta writes a path below its table, or a URI
            paths = (add["path"] for add in list_added_files(read_actions(commit)) if add["dataChange"])
            yield version, [path if is_uri(path) else f"{_uri(table)}/{path}" for path in paths]


def _uri(folder: str) -> str:
    """Return the beginning of the URIs of a folder's files."""
    return folder.rstrip("/") if is_uri(folder) else f"file:{quote(os.path.normpath(folder))}"


@dataclass(kw_only=True)
class RestoreRunner(SparkRunner[Restore]):
    """Runner of a restore. ``begun``: its excluded ranges so far. ``spec``: the file. ``found``: a plan made before."""

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
                places = {each.location for each in tables_of(self.home, self.manifest)}
                found = {place: newest_version(folder_at(place)) for place in places}
                versions = {place: version for place, version in found.items() if version is not None}
                self.made.note_tables(operation.note_tables(versions))
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
        manifest, spec, excluded_ranges = self.manifest, self._new_spec, self._out
        division = Division.read(manifest.spec, manifest.fingerprint.configuration)
        partitions = division.change(spec.key_groups, self.command.partitions).partitions
        with read_saved_state(self.spark, self.home, self.savepoint, manifest, spec.key_groups) as saved:
            events: State = saved.open_events
            kept, applied = manifest.kept, manifest.migrations
            if self._pending:
                migrated = self._migrated(self.home.lineage(self.lineage).migration, saved.open_events)
                migrated.decide()
                events, kept, applied = migrated.migrate(spec.key_groups), migrated.kept, migrated.applied()
            now = epoch_ms()
            transfer = StateTransfer(
                origin=self._origin(now, operation),
                spec=self._record(now),
                kept=kept,
                watermark_ms=manifest.watermark_ms,
                offset=manifest.position.offset,
                seen=read_saved_files(self.spark, self.savepoint, manifest),
                timeouts=saved.timeouts,
                records={
                    # a client that left the table would otherwise keep its old timeout
                    **(ANNOUNCED_FILE.content(AnnouncedTimeouts(saved.timeouts)) if saved.timeouts else {}),
                    **MIGRATIONS_FILE.content(AppliedMigrations(applied)),
                    **(EXCLUDED_RANGES_FILE.content(excluded_ranges) if excluded_ranges else {}),
                    **(SOURCE_IDS_FILE.content(SourceIds(manifest.source_ids)) if manifest.source_ids else {}),
                },
            )
            self.start_with(events, transfer, spec, partitions, operation, self._examined)

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
            manifest.committed_in(self.savepoint),
            self._pending,
            folder,
            saved=(self.savepoint, manifest),
            state=events if isinstance(events, KeptState) else None,
            final_by_ms=manifest.watermark_ms,
        )

    def row_changes(self) -> tuple[Sequence[StreamedTable], RowChanges]:
        """Return the tables, and the rows that leave them and come back."""
        return tables_of(self.home, self.manifest), changes_of(self.home, self.manifest)

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

    @property
    def _out(self) -> ExcludedRanges:
        assert self.found is not None  # noqa: S101  the executor plans first
        return self.found.excluded_ranges


@dataclass(kw_only=True)
class RollbackRunner(SparkRunner[Rollback]):
    """Runner of a rollback."""

    command: Rollback = field(default_factory=Rollback)
    _plan: RollbackPlan = field(init=False)

    def look(self) -> Plan[RollbackPlan]:
        """Make the plan. Writes nothing. Raises NothingToSave if the stream never ran, NoWayBack."""
        self._plan = plan_rollback(self.home, SparkFacts(self.spark))
        return self.command.plan(self._plan)

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
