"""Runner of a restore: a new lineage with the savepoint's state, the later rows deleted, then the lineage activated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.checkpoint.names import PARTITIONS
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import newest_version
from sessionizer.home.roots import folder_at
from sessionizer.home.stream_home import ANNOUNCED_TIMEOUTS
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.applied_migrations import MIGRATIONS_FILE, AppliedMigrations
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE, keep_excluded_ranges
from sessionizer.lineage.kept_spec import SPEC_FILE, KeptTypes, LineageSpec
from sessionizer.lineage.source_ids import SOURCE_IDS_FILE, SourceIds
from sessionizer.spark.ingest.timeout_table import announcement
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.spark.state.restores.restore_planning import (
    can_lead_back,
    changes_of,
    replay_now,
    saved_path,
    tables_of,
)
from sessionizer.spark.state.savepoints.saved_state import read_saved_files, read_saved_state
from sessionizer.state.commands.steps import KeepExcludedRanges
from sessionizer.state.lineages.origin import Origin, origins_of
from sessionizer.state.lineages.state_transfer import StateTransfer
from sessionizer.state.savepoints.manifest import read_saved_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.control.execution import Step
    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import SavepointHome
    from sessionizer.spark.state.savepoints.saved_state import SavedState
    from sessionizer.state.commands.command import Plan
    from sessionizer.state.commands.restore import Restore
    from sessionizer.state.restores.restore_plan import RestorePlan
    from sessionizer.state.restores.row_changes import RowChanges, StreamedTable
    from sessionizer.state.savepoints.manifest import Manifest


@dataclass(kw_only=True)
class RestoreRunner(SparkRunner):
    """Runner of a restore of the stream to ``savepoint``, as ``plan`` says."""

    command: Restore
    savepoint: SavepointHome
    manifest: Manifest
    plan: Plan[RestorePlan]

    def plan_again(self, record: OperationRecord) -> Plan[RestorePlan]:
        """Look once more at the events that the stream reads again, and for a way back. A savepoint does not change."""
        if record.is_past_return:
            return self.plan
        out = self.plan.decision.decision.excluded_ranges
        replay = replay_now(self.spark, self.home, self.savepoint, self.manifest, out)
        return self.command.plan(replace(self.plan.decision, replay=replay, leads_back=can_lead_back(self.home)))

    def run_own(self, step: Step, operation: Operation) -> str | None:
        """Run a step that only a restore has."""
        match step:
            case KeepExcludedRanges():
                keep_excluded_ranges(self.home, operation.record.id, self.plan.decision.decision.excluded_ranges)
            case _:
                return super().run_own(step, operation)
        return None

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage with the state of the savepoint."""
        spec = read_saved_spec(self.savepoint, self.manifest)
        examined = examine(self.spark, spec, self.home.platform)
        partitions = int(self.manifest.fingerprint.configuration[PARTITIONS])
        with read_saved_state(self.spark, self.home, self.savepoint, self.manifest) as saved:
            self.begin(spec, examined, partitions, self._transfer(saved, operation), operation)
            self.made.start(saved.open_events)

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
            self.command.name,
            now,
            manifest.lineage,
            manifest.batch_id,
            manifest.id,
            left=operation.record.lineage_from,
            tables=operation.note_tables(self._versions_now()),
            path=() if manifest.lineage in origins else saved_path(manifest, origins)[:-1],
        )

    def _transfer(self, saved: SavedState, operation: Operation) -> StateTransfer:
        manifest, now, timeouts = self.manifest, epoch_ms(), saved.timeouts
        active = active_lineage(self.home)
        before = SPEC_FILE.of(self.home, active).require() if active else None
        excluded_ranges = self.plan.decision.decision.excluded_ranges
        return StateTransfer(
            origin=self._origin(now, operation),
            spec=LineageSpec(dict(manifest.spec), now).follow(before),
            kept=KeptTypes(manifest.time_mode, manifest.payload_types),
            watermark_ms=manifest.watermark_ms,
            offset=manifest.position.offset,
            seen=read_saved_files(self.spark, self.savepoint, manifest),
            timeouts=timeouts,
            # what the groups keep was passed on: else a client that the table has lost would keep its own for ever
            records={
                **({ANNOUNCED_TIMEOUTS: announcement(timeouts)} if timeouts else {}),
                **MIGRATIONS_FILE.content(AppliedMigrations(manifest.migrations)),
                **(EXCLUDED_RANGES_FILE.content(excluded_ranges) if excluded_ranges else {}),
                **(SOURCE_IDS_FILE.content(SourceIds(manifest.source_ids)) if manifest.source_ids else {}),
            },
        )
