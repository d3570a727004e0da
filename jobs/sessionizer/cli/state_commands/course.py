"""Course that every command on a stream's state takes: its plan shown, approved by its digest, and carried out.

The command line comes from the command's declaration. A ``CommandCourse`` has the few parts that are the command's own.
"""

from __future__ import annotations

import getpass
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import MISSING, dataclass, field, replace
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeAlias, TypeVar, get_type_hints

import typer

from sessionizer.cli.places import CommandLine, Options, Stream, declare_parameters, option_parameters
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.cli.terminal import say, working_spark
from sessionizer.control.execution import Decided, Step, StepRunner, require_approved
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import (
    OPERATION_FILE,
    Ending,
    OperationRecord,
    OperationStage,
    keep_plan,
    pending_operation,
    read_operations,
)
from sessionizer.control.status.driver_status import read_driver
from sessionizer.control.status.unfinished_operation import find_unfinished_operation, stays_stopped
from sessionizer.counts import count_text
from sessionizer.deployment.releases import other_release
from sessionizer.deployment.running_spec import pending_changes, pending_line
from sessionizer.errors import InvalidSpec, OperationPending, SessionizerError, StreamMovedOn
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import root_at
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.state.commands.command import Command, Option, Plan
from sessionizer.state.commands.registry import command_of, downtime_of, find_changed_lineage
from sessionizer.state.commands.steps import Canary, StartLineage, Stop
from sessionizer.state.lineages.table_snapshot import SparkNeeded
from sessionizer.stream_spec.document.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sessionizer.spark.state.commands.runner import SparkRunner

_DIGEST: Final = re.compile(r"[0-9a-f]{16}")
Asked = TypeVar("Asked", bound=Command)


def _check_digest(typed: str | None) -> str | None:
    if typed is not None and not _DIGEST.fullmatch(typed):
        raise InvalidSpec("--approve", typed, "the 16 hex digits that the plan shows")
    return typed


By: TypeAlias = Annotated[str | None, typer.Option(help="User who approves. Default: you.")]
Wait: TypeAlias = Annotated[float, typer.Option(help="Seconds to wait for the running batch to end.", min=1)]


@dataclass(frozen=True, kw_only=True)
class Shared(Options):
    """Options that every command has. ``wait``: seconds. ``streams`` only if the command reads the stream's file."""

    stream: Stream
    approve: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Run the plan with this digest.", callback=_check_digest)
    ] = None
    wait: Wait = 300.0
    by: By = None


_SHARED: Final = ("approve", "wait", "by", "as_json", "streams", "home", "data", "master")


def command_line(command: type[Command], run: Callable[[Any, Shared], None]) -> Callable[..., None]:
    """Return the function from which Typer builds the command line. It calls ``run`` with the typed command."""

    def call(**values: Any) -> None:
        shared = Shared(**{name: values.pop(name) for name in ("stream", *_SHARED) if name in values})
        repeated = {name: tuple(values[name] or ()) for name, each in command.options().items() if each.default == ()}
        with note_pending(shared):
            run(command(**{**values, **repeated}), shared)

    call.__name__ = call.__qualname__ = command.name
    call.__doc__ = command.__doc__
    return declare_parameters(call, [*_parameters(command)])


def _parameters(command: type[Command]) -> Iterator[Parameter]:
    yield from option_parameters(Shared, ["stream"])
    types = get_type_hints(command)
    for name, each in command.options().items():
        if each.flag is not None:
            optional = None if each.default == () else each.default
            default = Parameter.empty if each.default is MISSING else optional
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=_annotate(each, types[name]))
    yield from option_parameters(Shared, [name for name in _SHARED if name != "streams" or command.reads_spec])


def _annotate(each: Option, kind: Any) -> Any:  # noqa: ANN401  a type
    said = f"{each.help[0].upper()}{each.help[1:]}.{' Repeat it for each.' if each.default == () else ''}"
    if not each.is_typed:
        return Annotated[kind, typer.Argument(metavar=f"[{each.flag}]", help=said)]
    if each.default == ():
        kind = list[str] | None
    said = f"{said} In ISO 8601." if each.is_moment else said
    return Annotated[kind, typer.Option(each.flag, metavar=each.metavar, help=said, min=each.min, max=each.max)]


@contextmanager
def note_pending(shared: Shared) -> Iterator[None]:
    """Add to an error of the block that an operation of its stream is pending, if so, and how to resume it."""
    try:
        yield
    except SessionizerError as error:
        is_told = hasattr(error, "__notes__") or isinstance(error, OperationPending)
        with suppress(SessionizerError):
            home, now = StreamHome.of(shared.platform, shared.stream), epoch_ms()
            pending = None if is_told else pending_operation(home)
            found = find_unfinished_operation(home.name, pending, read_driver(home, now), now) if pending else None
            if pending and found:
                for line in [found.standing] if found.is_at_work else stays_stopped(pending):
                    error.add_note(line)
        raise


@dataclass(kw_only=True)
class CommandCourse(ABC, Generic[Asked]):
    """A ``command`` with its ``shared`` options, on the stream of ``where``.

    ``pending``: the record of the same operation, if it was begun and is not over. ``savepoint``: its argument.
    ``plan``: the plan that was shown. ``why``: the reason of the stop, for users. ``asked``: the record of a request
    that is planned or carried out, None for a command that was typed.
    """

    command: Asked
    shared: Shared
    where: StreamHome
    asked: OperationRecord | None = None
    savepoint: str = ""
    why: str = ""
    pending: OperationRecord | None = field(default=None, init=False)
    plan: Plan[Any] | None = field(default=None, init=False)

    @classmethod
    def run(cls, command: Asked, shared: Shared, asked: OperationRecord | None = None) -> None:
        """Show the plan, or carry out the approved one."""
        where = shared.home_of(shared.stream)
        if command.brings_release:
            command = replace(command, releases=other_release(where))
        course = cls(command=command, shared=shared, where=where, asked=asked, why=command.name)
        course._require_folders()
        course.choose()
        if not command.may_repeat and is_done_already(course.where, command.name, shared.approve):
            course.after_done()
            return
        course.pending = find_begun(course.where, command.name, course.savepoint)
        if course.pending is not None and course.pending.request:
            begun: Any = command_of(course.pending, OPERATION_FILE.of(where, course.pending.id).path)
            course.command = replace(begun, releases=course.command.releases)
        if not course.is_finished() and course.needs_spark():
            course.run_on_spark()

    def _require_folders(self) -> None:
        for name, each in self.command.options().items():
            if each.is_folder and (given := getattr(self.command, name)) is not None:
                root_at(given, str(each.flag))

    def run_on_spark(self) -> None:
        """Make the plan unless that is done. Carry it out, or resume the pending operation, if the user approves it."""
        from sessionizer.spark.failures.query_failure import retry_late_worker  # noqa: PLC0415  fast --help

        verb, where = self.command.name, self.where
        line = f"starting Spark for the {verb} of {where.name}"
        with self.held(), working_spark(verb, where.name, self.shared.master, line, where.data) as spark:
            runner = self.make_runner(spark)
            if self.pending is not None:
                approved = self.goes_on(self.pending)
            else:
                approved = self.plan is not None or self.take_up(retry_late_worker(runner.look, say))
            if not approved:
                return
            self.before_stop(spark)
            record = self.carry_out(runner)
        self.done(record)

    def choose(self) -> None:
        """Complete what the user left open. Raises InvalidSpec for options that contradict each other."""

    def needs_spark(self) -> bool:
        """Whether Spark is needed. Do before what can be done without, such as to refuse the wrong digest."""
        return True

    def held(self) -> AbstractContextManager[object]:
        """Return a context in which what the command reads is kept."""
        return nullcontext()

    def parts(self, spark: SparkSession) -> dict[str, Any]:
        """Return what every runner is made of."""
        return {"spark": spark, "home": self.where, "say": say, "command": self.command}

    @abstractmethod
    def make_runner(self, spark: SparkSession) -> SparkRunner[Any]:
        """Return the runner of the command's steps."""

    def before_stop(self, spark: SparkSession) -> None:
        """Do what precedes the stop of the driver."""

    def after_done(self) -> None:
        """Do what a killed try has left though its operation is done."""

    @abstractmethod
    def done(self, record: OperationRecord) -> None:
        """Say after the last step how the stream goes on."""

    def is_finished(self) -> bool:
        """Note the end of an operation whose killed try has activated its lineage. Return whether nothing is left.

        It needs neither Spark nor a plan, because no plan for the new lineage is the approved one.
        """
        pending = self.pending
        if pending is None or self.command.last_steps or find_changed_lineage(self.where, pending) is None:
            return False
        if self.goes_on(pending):
            self.why = f"end of the {pending.verb}"
            typer.echo(_describe_done(self.carry_out(WithoutSteps(self.where))))
        return True

    def take_up(self, plan: Plan[Any]) -> bool:
        """Show the ``plan``, and keep it if asked to. Return whether it is approved.

        Raises PlanChanged if another plan was approved. Raises the error of an approved plan that is impossible. Such a
        plan is not shown, because its lines say the same as the error.
        """
        self.plan, shared = plan, self.shared
        if shared.approve == plan.digest and not shared.as_json:
            plan.require_possible()
        starts = not self.command.prepares and any(isinstance(step, StartLineage) for step in plan.steps)
        down = downtime_of(self.where, self.command.name, new_lineage=starts) if Stop() in plan.steps else None
        terms = next((each.terms for each in plan.steps if isinstance(each, Canary)), None)
        lines = [*plan.lines()]
        if plan.is_possible:
            lines += [f"  {canary_line(terms)}"] if terms else []
            lines += [f"  {down.line()}"] if down else []
        told = {**({"canary": terms.to_json()} if terms else {}), **({"downtime": down.to_json()} if down else {})}
        shared.show({**plan.to_json(), **told}, map(CommandLine.typed().complete, lines))
        if not shared.as_json and plan.is_possible and shared.approve != plan.digest and self.asked is None:
            typer.echo(f"to run it: the same command with --approve {plan.digest}")
        differences = plan.to_json().get("differences", ())
        self._keep(plan, plan.leaves, lines, differences=differences, possible=plan.is_possible)
        return self.is_approved(plan)

    def plan_without_spark(self, make: Callable[[], Plan[Any]]) -> bool:
        """Show the plan that ``make`` returns. Return whether Spark is needed: to carry it out, or to make the plan."""
        try:
            plan = make()
        except SparkNeeded:
            return True
        return self.take_up(plan)

    def goes_on(self, pending: OperationRecord) -> bool:
        """Whether to continue an operation that was begun. If not, a line says how to. Raises PlanChanged."""
        begun = f"the {pending.verb} of stream {pending.stream} was begun and is not finished: it goes on where it was"
        self._keep(pending, (pending.lineage_from, pending.batch_from), [begun])
        if self.is_approved(pending):
            return True
        if self.asked is None:
            say(f"one was begun and is not finished. To resume it: the same command with --approve {pending.digest}")
        return False

    def is_approved(self, plan: Decided) -> bool:
        """Whether the ``plan`` may be carried out. Raises PlanChanged if another plan was approved."""
        if self.shared.approve is not None:
            require_approved(self.where, self.shared.approve, plan)
        return self.shared.approve is not None

    def carry_out(self, runner: StepRunner) -> OperationRecord:
        """Run the approved plan, or go on with the pending operation. Return its record, done."""
        record, plan = self.pending, self.plan
        if record is None:
            assert plan is not None  # noqa: S101  nothing else was approved
            plan.require_possible()
            record = new_operation(
                self.where,
                self.command.name,
                plan.digest,
                approver(self.shared.by),
                plan.leaves,
                savepoint=self.savepoint,
                request=self.command.to_json(),
                decided=plan.decided,
            )
            if (asked := self.asked) is not None:
                record = replace(record, id=asked.id, text=asked.text, planned_at=asked.planned_at)
        return carry_out(self.where, record, self.why, self.shared.wait, runner)

    def _keep(
        self,
        plan: Decided,
        leaves: tuple[str, int],
        lines: list[str],
        *,
        differences: Iterable[Mapping[str, Any]] = (),
        possible: bool = True,
    ) -> None:
        """Keep the plan of a request, unless it has one. A plan that a user has seen must not be replaced."""
        if self.asked is None or self.asked.step is not OperationStage.REQUESTED:
            return
        planned = replace(
            self.asked,
            step=OperationStage.PLANNED,
            request=self.command.to_json(),
            savepoint=self.savepoint,
            digest=plan.digest,
            possible=possible,
            text="\n".join(lines),
            planned_at=epoch_ms(),
            decided=plan.decided,
            differences=tuple(differences),
            lineage_from=leaves[0],
            batch_from=leaves[1],
        )
        kept = keep_plan(self.where, planned)
        same = kept.digest == plan.digest
        say(f"kept as the plan of {kept.id}" if same else f"the plan of {kept.id} is {kept.digest} and stays so")


@dataclass(frozen=True)
class WithoutSteps:
    """Runner of an operation that has no step left, or whose ``plan`` is not the approved one. It needs no Spark."""

    home: StreamHome
    plan: Plan[Any] | None = None

    def prepared(self, _: OperationRecord) -> AbstractContextManager[None]:
        """Prepare nothing."""
        return nullcontext()

    def find_activated(self, record: OperationRecord) -> str | None:
        """Return the active lineage of the operation."""
        return find_changed_lineage(self.home, record)

    def plan_again(self, record: OperationRecord) -> Plan[Any]:
        """Return the other plan. Raises StreamMovedOn if another process has changed the stream."""
        if self.plan is None:
            raise StreamMovedOn(self.home.name, record.digest, "its lineage is no longer active")
        return self.plan

    def last_steps(self) -> tuple[Step, ...]:
        """Return no step."""
        return ()

    def run(self, step: Step, _: Operation) -> None:
        """Run no step."""
        raise NotImplementedError(step)

    def clean_up(self, _: Operation) -> None:
        """Leave everything, because nothing was made."""


def find_begun(where: StreamHome, verb: str, savepoint: str = "") -> OperationRecord | None:
    """Return the record of the same operation if it was begun and is not over.

    Raises OperationPending for any other, and DamagedFile, ControlUnreachable.
    """
    pending = pending_operation(where)
    if pending is not None and (pending.verb, pending.savepoint) != (verb, savepoint):
        raise pending.pending_error()
    return pending


def is_done_already(where: StreamHome, verb: str, approve: str | None) -> bool:
    """Whether the stream's newest operation has done the approved plan already. If so, a line says it.

    After a command that was killed with its work done, or whose answer was lost, a new plan would do something else.
    Raises DamagedFile, ControlUnreachable.
    """
    newest = next(reversed(read_operations(where)), None)
    if newest is None or newest.outcome is not Ending.DONE or (newest.verb, newest.digest) != (verb, approve):
        return False
    if newest.lineage_to != active_lineage(where):
        return False
    typer.echo(_describe_done(newest))
    return True


def _describe_done(record: OperationRecord) -> str:
    done = f"operation {record.id} has carried out what you approve ({record.seconds} s)"
    return f"stream {record.stream} is in lineage {record.lineage_to}: {done}"


def canary_line(terms: CanaryTerms) -> str:
    """Describe the canary of a new lineage in one line."""
    then = "rolls back" if terms.goes_back else "ends and says why"
    return f"canary of {count_text(terms.batches, 'batch')}: if its figures are worse than before, the driver {then}"


def note_edited_file(where: StreamHome, spec: StreamSpec) -> None:
    """Say so if the file's ``spec`` is not in force, because it was edited after the approval."""
    changes = pending_changes(where, spec)
    if changes:
        say(f"note: the file was edited after the approval. {pending_line(where.name, changes)}")


def approver(by: str | None) -> str:
    """Return the name of the approving user."""
    return by or getpass.getuser()
