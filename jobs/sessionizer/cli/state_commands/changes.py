"""Commands that change a stream's state, as they are typed: what each reads first, its runner and its last word."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import typer

from sessionizer.checkpoint.log_entries import read_begun_batch
from sessionizer.cli.places import Options, Stream, require_known_stream, savepoints_folder, shares
from sessionizer.cli.state_commands.course import (
    By,
    CommandCourse,
    WithoutSteps,
    approver,
    command_line,
    is_done_already,
    note_edited_file,
)
from sessionizer.cli.state_commands.erasure import EraseCourse
from sessionizer.cli.terminal import say
from sessionizer.control.records.operation_record import OPERATION_FILE, OperationRecord, OperationStage
from sessionizer.counts import count_text
from sessionizer.deployment.differences import Division
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.deployment.upgrade_plan import plan_upgrade
from sessionizer.errors import InvalidSpec, StreamBegun, UnknownSavepoint
from sessionizer.home.clock import epoch_ms, moment_of
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.launch.installation import require_driver_loads
from sessionizer.lineage.active import active_lineage, require_lineage
from sessionizer.lineage.canary.canary_record import promote_lineage
from sessionizer.lineage.excluded_ranges import read_approved
from sessionizer.state.commands.command import Command, Plan
from sessionizer.state.commands.erasures import Erase
from sessionizer.state.commands.moves import Rescale, Switch, decide_switch, require_switch
from sessionizer.state.commands.restores import Restore, Rollback, decide_rollback
from sessionizer.state.commands.return_plans import FileFacts, plan_restore_from_files, plan_rollback
from sessionizer.state.commands.seeds import Seed, SeedPlan
from sessionizer.state.commands.steps import Prove, new_lineage
from sessionizer.state.commands.upgrades import Apply, Upgrade
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.lineages.origin import rollback_of
from sessionizer.state.savepoints.listing import complete_savepoint, keep_from_removal, list_savepoints
from sessionizer.state.savepoints.manifest import Manifest
from sessionizer.stream_spec.decisions import (
    KEY_GROUPS,
    changes_between,
    decisions_of,
    list_decisions,
    spec_fingerprint,
)
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sessionizer.spark.history.history_rows import Reader
    from sessionizer.spark.state.commands.runner import SparkRunner


NOT_LOOKED_AT = "columns and SQL are not checked: Spark does that before the stream is stopped, or now with --deep"


def approved_spec(where: StreamHome, begun: OperationRecord | None) -> StreamSpec | None:
    """Return the approved spec of a command that was ``begun``. None: it keeps none."""
    if begun is None or not begun.spec:
        return None
    return parse_recorded_spec(dict(begun.spec), OPERATION_FILE.of(where, begun.id).path)


@dataclass(kw_only=True)
class RestoreCourse(CommandCourse[Restore]):
    """``sessionizer restore``: go back to a savepoint."""

    folder: DataPath = field(init=False)
    found: tuple[SavepointHome, Manifest] = field(init=False)
    spec: StreamSpec | None = field(default=None, init=False)

    def choose(self) -> None:
        """Choose the savepoint, by its id or by a time. Raises InvalidSpec, UnknownSavepoint."""
        self.folder = savepoints_folder(self.where, self.command.folder)
        savepoint, time = self.command.savepoint, self.command.time
        if savepoint is None and time is None:
            of_stream = f"an id that `sessionizer savepoint list {self.where.name}` shows, or --time with a moment"
            raise InvalidSpec("SAVEPOINT", None, f"Give SAVEPOINT, {of_stream}")
        if savepoint is not None and time is not None:
            raise InvalidSpec("--time", time, "Omit it, because SAVEPOINT is given")
        self.savepoint = savepoint or self._newest_at(str(time))
        self.command = replace(self.command, savepoint=self.savepoint, time=None)  # a later try finds the same one
        self.why = f"{self.command.name} to {self.savepoint}"

    def _newest_at(self, time: str) -> str:
        until = moment_of(time, "--time")
        found = [each for each in list_savepoints(self.folder, epoch_ms()) if each.is_complete]
        made = {each.id: each.manifest.batch_at for each in found if each.manifest is not None}
        fitting = [savepoint for savepoint, at in made.items() if at <= until]
        if not fitting:
            raise UnknownSavepoint("", [each.id for each in found], until=time)
        return max(fitting, key=made.__getitem__)

    def needs_spark(self) -> bool:
        """Find the savepoint, and read the file if it is needed. A restore that was begun keeps its file.

        Raises UnknownSavepoint, UnusableSavepoint, NothingToSave, and the errors of the file.
        """
        self.found = complete_savepoint(self.folder, self.savepoint, epoch_ms())
        require_lineage(self.where)
        self.spec = approved_spec(self.where, self.pending)
        if self.spec is None and self.command.reads_file:
            self.spec = self.shared.spec_of(self.shared.stream)
        if self.pending is not None:
            return True
        with self.held():
            return self.plan_without_spark(lambda: plan_restore_from_files(self.where, *self.found, self.command))

    def held(self) -> AbstractContextManager[object]:
        """Keep the savepoint from removal."""
        return keep_from_removal(self.found[0], self.command.name)

    def make_runner(self, spark: SparkSession) -> SparkRunner[Restore]:
        """Return the runner. A restore that was begun excludes the ranges that were approved."""
        from sessionizer.spark.state.commands.restores import RestoreRunner  # noqa: PLC0415  fast --help

        savepoint, manifest = self.found
        begun = read_approved(self.where, self.pending.id) if self.pending else None
        found = None if self.plan is None else self.plan.decision
        parts: dict[str, Any] = {**self.parts(spark), "savepoint": savepoint, "manifest": manifest}
        return RestoreRunner(**parts, begun=begun, spec=self.spec, found=found)

    def done(self, record: OperationRecord) -> None:
        """Name the lineage that goes on."""
        stream, savepoint, lineage = self.where.name, self.savepoint, record.lineage_to
        typer.echo(f"stream {stream} is back at savepoint {savepoint}, in lineage {lineage} ({record.seconds} s)")
        if self.spec is not None:
            note_edited_file(self.where, self.spec)


@dataclass(kw_only=True)
class RollbackCourse(CommandCourse[Rollback]):
    """``sessionizer rollback``: go back to the lineage before."""

    def needs_spark(self) -> bool:
        """Refuse another digest than that of the way back."""
        require_known_stream(self.where, self.shared.streams)
        if self.pending is not None:
            return True
        back, leaves = rollback_of(self.where)
        self.is_approved(decide_rollback(self.where.name, leaves, back.lineage))
        return self.plan_without_spark(lambda: self.command.plan(plan_rollback(self.where, FileFacts())))

    def make_runner(self, spark: SparkSession) -> SparkRunner[Rollback]:
        """Return the runner."""
        from sessionizer.spark.state.commands.restores import RollbackRunner  # noqa: PLC0415  fast --help

        return RollbackRunner(**self.parts(spark))

    def done(self, record: OperationRecord) -> None:
        """Name the lineage that goes on."""
        typer.echo(f"stream {self.where.name} is back in lineage {record.lineage_to} ({record.seconds} s)")


@dataclass(kw_only=True)
class OfFile(CommandCourse[Any]):
    """A command that reads the stream's file. ``spec``: what the file says."""

    spec: StreamSpec = field(init=False)

    def choose(self) -> None:
        """Read the file. Raises UnknownStream, DuplicateStream, InvalidSpec."""
        self.spec = self.shared.spec_of(self.shared.stream)


@dataclass(kw_only=True)
class RescaleCourse(OfFile):
    """``sessionizer rescale``: divide the state into other key groups."""

    command: Rescale

    def needs_spark(self) -> bool:
        """Show the plan. Raises InvalidSpec."""
        if self.pending is not None:
            return True
        plan = self.command.plan(self.where.name, read_committed_batch(self.where), self.spec.key_groups)
        self.why = f"{self.command.name} to {plan.decision.now}"
        return self.take_up(plan) and plan.is_needed

    def make_runner(self, spark: SparkSession) -> SparkRunner[Rescale]:
        """Return the runner."""
        from sessionizer.spark.state.commands.moves import RescaleRunner  # noqa: PLC0415  fast --help

        return RescaleRunner(**self.parts(spark), key_groups=self.spec.key_groups)

    def done(self, record: OperationRecord) -> None:
        """Name the lineage that goes on. Note if the file says another number."""
        now, in_file = Division(**record.decided["now"]), self.spec.key_groups
        typer.echo(f"stream {self.where.name} continues in lineage {record.lineage_to}: {now} ({record.seconds} s)")
        if now.key_groups != in_file:
            is_said = KEY_GROUPS in self.spec.model_fields_set
            says = f"key_groups: {in_file}" if is_said else f"nothing, so {count_text(in_file, 'key group')}"
            say(f"note: its file says {says}. The rescale holds until that number is edited")


@dataclass(kw_only=True)
class SwitchCourse(OfFile):
    """``sessionizer switch``: continue the open sessions with another source, or without its lost events."""

    command: Switch

    def choose(self) -> None:
        """Read the file. Raises InvalidSpec also for options that contradict each other."""
        super().choose()
        self.command.start()
        self.why = f"{self.command.name} of the source"

    def needs_spark(self) -> bool:
        """Refuse a file without another source, and the digest of another switch."""
        start = self.command.start()
        if self.pending is None and start is not None:
            committed = read_committed_batch(self.where)
            require_switch(changes_between(list_decisions(committed.spec), decisions_of(self.spec)))
            lineage, terms = committed.lineage, self.command.terms
            decided = decide_switch(self.where.name, lineage, spec_fingerprint(self.spec), start, terms)
            self.is_approved(self.command.make_plan(decided, (lineage, committed.batch_id), new_lineage(terms)))
        return True

    def make_runner(self, spark: SparkSession) -> SparkRunner[Switch]:
        """Return the runner. Without another source the spec in force stays."""
        from sessionizer.spark.state.commands.moves import LossRunner, SwitchRunner  # noqa: PLC0415  fast --help

        start = self.command.start()
        if start is None:
            return LossRunner(**self.parts(spark), spec=spec_in_force(self.where, self.spec))
        return SwitchRunner(**self.parts(spark), spec=self.spec, start=start)

    def done(self, record: OperationRecord) -> None:
        """Name the lineage that goes on."""
        how = "without the events that are gone" if self.command.accept_loss else "with its new source"
        typer.echo(f"stream {self.where.name} continues {how} in lineage {record.lineage_to} ({record.seconds} s)")


@dataclass(kw_only=True)
class ApplyCourse(OfFile):
    """``sessionizer apply`` and ``upgrade``: continue by the file, ``upgrade`` by the installed programs as well."""

    command: Apply

    def choose(self) -> None:
        """Leave the file to ``needs_spark``, because a begun command may keep another."""
        self.why = f"{self.command.name} of the stream"

    def needs_spark(self) -> bool:
        """Show the plan if that is all there is to do, and return whether it is not."""
        self.spec = approved_spec(self.where, self.pending) or self.shared.spec_of(self.shared.stream)
        if self.pending is not None:
            return True
        command, shared = self.command, self.shared
        committed = read_committed_batch(self.where, to_upgrade=command.takes_programs)
        at = (committed.lineage, committed.batch_id)
        plan = command.plan(plan_upgrade(self.where, at, self.spec, command.request))
        if (not plan.is_needed or plan.digest != shared.approve) and is_done_already(
            self.where, command.name, shared.approve
        ):
            note_edited_file(self.where, self.spec)
            return False
        waits_for_deep = command.deep and plan.is_needed and not plan.decision.refused
        if waits_for_deep or (plan.is_possible and shared.approve):
            self.is_approved(plan)
            if command.takes_programs:
                require_driver_loads()
            return True
        if self.take_up(plan):
            plan.require_possible()
        if plan.is_possible and not shared.as_json:
            typer.echo(f"  {NOT_LOOKED_AT}")
        return False

    def take_up(self, plan: Plan[Any]) -> bool:
        """Show the plan. End with the code of a refusal, unless the plan is that of a request."""
        approved = super().take_up(plan)
        if plan.decision.refused and plan.refusal is not None and self.asked is None:
            raise typer.Exit(plan.refusal.exit_code)
        return approved and plan.is_needed

    def make_runner(self, spark: SparkSession) -> SparkRunner[Apply]:
        """Return the runner."""
        from sessionizer.spark.state.commands.moves import ApplyRunner  # noqa: PLC0415  fast --help

        folder = savepoints_folder(self.where, self.command.folder)
        return ApplyRunner(**self.parts(spark), spec=self.spec, savepoints=folder)

    def before_stop(self, spark: SparkSession) -> None:
        """Prove the upgrade if its plan says so. Raises ProofFailed."""
        from sessionizer.spark.proof.prove import prove_and_keep  # noqa: PLC0415  fast --help

        if self.plan is not None and Prove() in self.plan.steps:
            prove_and_keep(spark, self.where, self.spec, say=say).proof.require(self.command.accept)

    def done(self, record: OperationRecord) -> None:
        """Name the lineage that goes on. Note if the file was edited meanwhile."""
        stream, lineage = self.where.name, record.lineage_to
        typer.echo(f"stream {stream} continues with the approved file in lineage {lineage} ({record.seconds} s)")
        note_edited_file(self.where, self.spec)


@dataclass(kw_only=True)
class SeedCourse(OfFile):
    """``sessionizer seed``: begin a stream with a history."""

    command: Seed
    decision: SeedPlan = field(init=False)
    history: Reader = field(init=False)
    read_spec: StreamSpec = field(init=False)

    def needs_spark(self) -> bool:
        """Find the history. One that a seed has begun to read keeps its spec.

        Raises StreamBegun for a stream that has begun, unless it starts over, and PlanChanged.
        """
        from sessionizer.spark.history.history_rows import find_history  # noqa: PLC0415
        from sessionizer.spark.history.seed_runner import spec_of_history  # noqa: PLC0415  fast --help

        command, pending, name = self.command, self.pending, self.where.name
        leaves = (pending.lineage_from or None) if pending else active_lineage(self.where)
        if pending is None and leaves is not None and not command.start_over:
            raise StreamBegun(name, leaves)
        spec = spec_of_history(self.where.seeds / pending.id, self.spec) if pending else self.spec
        if not spec.rules.clock.has_watermark:
            value = spec.rules.clock.value
            raise InvalidSpec("rules.time_mode", value, "event_time: a history does not say when it came")
        past, self.history = find_history(command.history, spec.source, command.table, command.user, command.query)
        asked = (command.until_ms(), command.live(), command.backfill, leaves)
        self.decision = SeedPlan(name, spec_fingerprint(spec), past, *asked, command.terms)
        self.read_spec, self.why = spec, f"{command.name} from {past}"
        newest = None if leaves is None else read_begun_batch(self.where.checkpoint(leaves))
        plan = command.plan(self.decision, newest_batch=-1 if newest is None else newest)
        if pending is not None and not pending.has_done(OperationStage.TAKEN):
            if pending.digest != plan.digest:
                self.carry_out(WithoutSteps(self.where, plan))
        elif pending is None and self.is_approved(plan):
            self.where.prepare()
            self.plan = plan
        return True

    def make_runner(self, spark: SparkSession) -> SparkRunner[Seed]:
        """Return the runner."""
        from sessionizer.spark.history.seed_runner import HistoryReader, SeedRunner  # noqa: PLC0415  fast --help
        from sessionizer.spark.sinks.examine import examine  # noqa: PLC0415

        spec, platform = self.read_spec, self.where.platform
        reader = HistoryReader(spark, spec, examine(spark, spec, platform), self.history, self.decision, platform)
        return SeedRunner(**self.parts(spark), reader=reader)

    def done(self, record: OperationRecord) -> None:
        """Name the lineage that begins. Note if the file was edited meanwhile."""
        typer.echo(f"stream {self.where.name} begins in lineage {record.lineage_to} ({record.seconds} s)")
        note_edited_file(self.where, self.spec)


@shares("home")
def promote(stream: Stream, at: Options, *, by: By = None) -> None:
    """Keep the stream's lineage, whatever its canary found or would find."""
    where = StreamHome.of(at.platform, stream)
    require_known_stream(where)
    typer.echo(promote_lineage(where, approver(by)))


COURSES: Final[dict[type[Command], type[CommandCourse[Any]]]] = {
    Restore: RestoreCourse,
    Rollback: RollbackCourse,
    Rescale: RescaleCourse,
    Switch: SwitchCourse,
    Apply: ApplyCourse,
    Upgrade: ApplyCourse,
    Seed: SeedCourse,
    Erase: EraseCourse,
}
restore, rollback, rescale, switch, apply, upgrade, seed, erase = (
    command_line(command, course.run) for command, course in COURSES.items()
)
