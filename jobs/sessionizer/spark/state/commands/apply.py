"""Runner of an apply: a savepoint first, then the lineage of a stopped stream or a new one uses the changed spec."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sessionizer.control.execution import Step
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.deployment.running_spec import new_record, require_whole
from sessionizer.deployment.upgrade_plan import UpgradePlan, choose_groups, plan_upgrade
from sessionizer.errors import DamagedFile
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import SavepointHome
from sessionizer.lineage.fingerprint import note_programs
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE, keep_rescale, waiting_migrations, write_lineage_spec
from sessionizer.spark.sinks.examine import Examined, half_written_batch
from sessionizer.spark.sinks.tables import have_tables
from sessionizer.spark.state.commands.restores import RestoreRunner
from sessionizer.spark.state.commands.runner import FileRunner
from sessionizer.spark.state.lineages.migrated_events import MigratedEvents, write_finished_rows
from sessionizer.spark.state.savepoints.savepoint import make_savepoint
from sessionizer.state.commands.command import Plan
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
from sessionizer.state.lineages.committed_batch import CommittedBatch, read_committed_batch
from sessionizer.state.lineages.origin import ORIGIN_FILE
from sessionizer.state.savepoints.listing import complete_savepoint
from sessionizer.state.savepoints.manifest import Manifest
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from sessionizer.stream_spec.decisions import changes_between, decisions_of, list_decisions
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec


@dataclass(kw_only=True)
class ApplyRunner(FileRunner[Apply]):
    """Runner of ``command``, which changes the stream to its file's ``spec``.

    ``savepoints``: the folder for the savepoint of the state before. ``new_spec``: the spec as the lineage takes it, in
    the key groups of a rescale.
    """

    spec: StreamSpec
    savepoints: DataPath
    new_spec: StreamSpec = field(init=False)
    _found: tuple[CommittedBatch, Examined] | None = field(default=None, init=False)
    _saved: tuple[SavepointHome, Manifest] | None = field(default=None, init=False)
    _replays: bool = field(default=False, init=False)
    _restore: RestoreRunner | None = field(default=None, init=False)

    @contextmanager
    def prepared(self, record: OperationRecord) -> Iterator[None]:
        """Make a savepoint and the new lineage from it while the stream runs, if the plan says so.

        Raises EventsGone if the source has lost what is to be read again.
        """
        if not self._replays:
            yield
            return
        restore = self._restore_of(record)
        restore.look().require_possible()
        with restore.prepared(record):
            yield

    def plan_again(self, record: OperationRecord) -> Plan[UpgradePlan]:
        """Make the plan under the lease. One that replays needs the events since its savepoint as well."""
        plan = self.look()
        if not self._replays:
            return plan
        return replace(plan, refusal=plan.refusal or self._restore_of(record).plan_again(record).refusal)

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
        """Return the runner of the restore to the savepoint of the operation, which is made if it is not there.

        Raises UnknownSavepoint if it is gone and rows may be deleted already.
        """
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
        """Make the plan. Writes nothing.

        Raises InvalidSpec if Spark refuses the spec, or state or tables have values that it cannot take, and the errors
        of ``read_committed_batch``, which keep a stream from being saved.
        """
        committed = read_committed_batch(self.home, to_upgrade=self.command.takes_programs)
        at, request = (committed.lineage, committed.batch_id), self.command.request
        self.new_spec = choose_groups(keep_rescale(self.home, committed.lineage, self.spec), request.key_groups)
        same = self.same_to_spark(committed.spec, self.new_spec)
        plan = self.command.plan(plan_upgrade(self.home, at, self.spec, request, same))
        self._replays = plan.decision.replays
        if plan.is_needed and not plan.decision.refused:
            migrated = self._migrated(committed, self.home.seeds)
            self._found = committed, self.examine_file(self.new_spec, migrated.kept if migrated else committed.kept)
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
                lineage = self._looked[0].lineage
                self._require_whole(self._looked[0])
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
        migrated = self._migrated(committed, self.home.lineage(self.lineage).migration)
        self.start_after(
            operation,
            committed,
            self.new_spec,
            record,
            partitions=request.partitions,
            examined=examined,
            migrated=migrated,
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

    @property
    def _looked(self) -> tuple[CommittedBatch, Examined]:
        assert self._found is not None  # noqa: S101  the executor plans first
        return self._found

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
        name = self.command.name
        why, own_id = f"before {name} {operation}", f"{name}-{operation}"
        return SavepointRequest(self.savepoints, why, own_id, with_rows=False, within=operation)

    def _migrated(self, committed: CommittedBatch, folder: DataPath) -> MigratedEvents | None:
        pending = waiting_migrations(self.home, committed.lineage, self.new_spec)
        stateless = self.command.request.stateless
        if not pending and not stateless:
            return None
        return MigratedEvents(self.spark, self.home, committed, pending, folder, stateless, self._saved)

    def _require_whole(self, committed: CommittedBatch) -> None:
        """Require that no batch was cut short after it had written, because it must run again by the spec of then."""
        written = self.home.streamed_locations(committed.spec["sink"]["path"]).values()
        begun = half_written_batch(self.spark, self.home, committed.lineage, written)
        require_whole(changes_between(list_decisions(committed.spec), decisions_of(self.new_spec)), begun)
