"""Runner of an apply: a savepoint first, then the lineage of a stopped stream or a new one uses the changed spec."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sessionizer.deployment.running_spec import new_record, require_whole
from sessionizer.deployment.upgrade_planning import plan_upgrade
from sessionizer.errors import DamagedFile
from sessionizer.home.data_files import list_names, remove_tree
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import SavepointHome
from sessionizer.lineage.fingerprint import note_programs
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE, waiting_migrations, write_lineage_spec
from sessionizer.spark.ingest.expressions import is_same_expression
from sessionizer.spark.ingest.guard import require_in_reach, require_readable_state
from sessionizer.spark.ingest.source import read_source
from sessionizer.spark.sinks.examine import examine, half_written_batch
from sessionizer.spark.sinks.tables import have_tables, require_own_tables_fit
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.spark.state.lineages.migrated_events import MigratedEvents, write_finished_rows
from sessionizer.spark.state.savepoints.savepoint import make_savepoint
from sessionizer.state.commands.steps import (
    CopyCheckpoint,
    NotePrograms,
    PrepareTables,
    WriteFinishedSessions,
    WriteSavepoint,
    WriteSpec,
)
from sessionizer.state.commands.upgrades import Apply
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.lineages.origin import ORIGIN_FILE
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from sessionizer.stream_spec.decisions import changes_between, decisions_of, list_decisions
from sessionizer.stream_spec.spec_folder import parse_recorded_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.control.execution import Step
    from sessionizer.control.operation import Operation
    from sessionizer.deployment.upgrade_plan import UpgradePlan
    from sessionizer.home.roots import DataPath
    from sessionizer.lineage.kept_spec import KeptTypes
    from sessionizer.spark.sinks.examine import Examined
    from sessionizer.state.commands.command import Plan
    from sessionizer.state.lineages.committed_batch import CommittedBatch
    from sessionizer.state.savepoints.manifest import Manifest
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(kw_only=True)
class ApplyRunner(SparkRunner[Apply]):
    """Runner of ``command``, which changes the stream to ``spec``.

    ``savepoints``: the folder for the savepoint of the state before.
    """

    spec: StreamSpec
    savepoints: DataPath
    _found: tuple[CommittedBatch, Examined] | None = field(default=None, init=False)
    _saved: tuple[SavepointHome, Manifest] | None = field(default=None, init=False)

    def look(self) -> Plan[UpgradePlan]:
        """Make the plan. Writes nothing.

        Raises InvalidSpec if Spark refuses the spec, or state or tables have values that it cannot take, and the errors
        of ``read_committed_batch``, which keep a stream from being saved.
        """
        committed = read_committed_batch(self.home, to_upgrade=self.command.takes_programs)
        at, same = (committed.lineage, committed.batch_id), frozenset(self._same_to_spark(committed))
        plan = self.command.plan(plan_upgrade(self.home, at, self.spec, self.command.request, same))
        if plan.is_needed and not plan.decision.refused:
            self._found = committed, self._examined(committed, self._migrated(committed, self.home.seeds))
        return plan

    def run_own(self, step: Step, operation: Operation) -> str | None:
        """Run a step that only an apply has."""
        match step:
            case WriteSavepoint():
                self._write_savepoint(step, self._looked[0], operation.record.id)
            case PrepareTables():
                have_tables(self.spark, self.home, self.spec, self._looked[1].shapes(self.spec))
            case WriteFinishedSessions():
                self._write_finished(operation)
            case WriteSpec():
                return self._write_spec(self._looked[0], operation)
            case NotePrograms():
                note_programs(self.home, self.activated(operation))
            case _:
                return super().run_own(step, operation)
        return None

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage. Raises HalfWrittenBatch."""
        committed, examined = self._looked
        migrated, record = self._migrated(committed, self._folder(operation)), new_record(self.home, self.spec)
        self.start_after(operation, committed, self.spec, record, examined=examined, migrated=migrated)

    def clean_up(self, operation: Operation) -> None:
        """Remove the new lineage of a failed try, and the results of its migration. Raises LeaseLost."""
        super().clean_up(operation)
        folder = self._folder(operation)
        if list_names(folder) and self.find_activated(operation.record) is None:
            operation.permit()  # they are another run's if it was overtaken
            remove_tree(folder)

    def _write_finished(self, operation: Operation) -> None:
        lineage = self.activated(operation)
        origin = ORIGIN_FILE.of(self.home, lineage).require()
        before = self._spec_before((origin.parent if origin else None) or lineage)
        write_finished_rows(self.spark, self.home, lineage, before, self._folder(operation), operation.permit)

    def _spec_before(self, lineage: str) -> tuple[StreamSpec, KeptTypes]:
        """Return the spec and types by which finished sessions of the lineage are written. Raises DamagedFile."""
        record, kept = SPEC_FILE.of(self.home, lineage).require(), TYPES_FILE.of(self.home, lineage).require()
        if record is None or kept is None:
            raise DamagedFile(uri_of(self.home.lineage(lineage).root), "it lacks spec.json or types.json")
        return parse_recorded_spec(record.document, SPEC_FILE.of(self.home, lineage).path), kept

    @property
    def _looked(self) -> tuple[CommittedBatch, Examined]:
        assert self._found is not None  # noqa: S101  the executor plans first
        return self._found

    def _write_savepoint(self, step: WriteSavepoint, committed: CommittedBatch, operation: str) -> None:
        name = self.command.name
        # the stream waits meanwhile, and typed rows are most of a savepoint's time
        asked = SavepointRequest(
            self.savepoints,
            f"before {name} {operation}",
            f"{name}-{operation}",
            live=False,
            with_rows=False,
            within=operation,
        )
        if isinstance(step, CopyCheckpoint):
            made = make_native_savepoint(self.home, committed, asked, lambda _: None)
        else:
            made = make_savepoint(self.spark, self.home, committed, asked, lambda _: None)
            self._saved = SavepointHome.of(self.savepoints, made.id), made
        self.say(f"savepoint: {made.id}")

    def _write_spec(self, committed: CommittedBatch, operation: Operation) -> str:
        self._require_whole(committed)
        operation.permit()
        write_lineage_spec(self.home, committed.lineage, new_record(self.home, self.spec))
        self.say("lineage: the approved spec is recorded")
        return committed.lineage

    def _same_to_spark(self, committed: CommittedBatch) -> Iterator[str]:
        """Yield the expressions of the mapping that are only written otherwise, over a source that did not change."""
        changes = changes_between(list_decisions(committed.spec), decisions_of(self.spec))
        written = [each for each in changes if each.field.startswith("mapping.") and each.before and each.now]
        if written and not any(each.field.startswith("source.") for each in changes):
            limit = self.spec.rules.max_event_bytes
            rows = read_source(self.spark, self.spec.source, self.home.platform, limit, stream=True)
            yield from (each.field for each in written if is_same_expression(rows, each.before, each.now))

    def _migrated(self, committed: CommittedBatch, folder: DataPath) -> MigratedEvents | None:
        pending = waiting_migrations(self.home, committed.lineage, self.spec)
        stateless = self.command.request.stateless
        if not pending and not stateless:
            return None
        return MigratedEvents(self.spark, self.home, committed, pending, folder, stateless, self._saved)

    def _folder(self, operation: Operation) -> DataPath:
        return self.home.seeds / operation.record.id

    def _examined(self, committed: CommittedBatch, migrated: MigratedEvents | None) -> Examined:
        examined = examine(self.spark, self.spec, self.home.platform)
        if migrated is None:
            require_readable_state(self.home, committed.lineage, self.spec, examined.guarded.payload)
        else:
            require_in_reach(examined.guarded.payload, migrated.kept)
        require_own_tables_fit(self.spark, self.home, self.spec, examined.shapes(self.spec))
        return examined

    def _require_whole(self, committed: CommittedBatch) -> None:
        """Require that no batch was cut short after it had written, because it must run again by the spec of then."""
        written = self.home.streamed_locations(committed.spec["sink"]["path"]).values()
        begun = half_written_batch(self.spark, self.home, committed.lineage, written)
        require_whole(changes_between(list_decisions(committed.spec), decisions_of(self.spec)), begun)
