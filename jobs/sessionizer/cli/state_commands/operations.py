"""Course of a command on a stream's state: its plan shown, approved by its digest, carried out under the lease."""

from __future__ import annotations

import getpass
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from sessionizer.cli.places import home_folder, spark_master
from sessionizer.cli.state_commands.offer import Offer
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.cli.terminal import say, start_spark, translate_failures
from sessionizer.control.operation import new_operation
from sessionizer.control.plan_changes import require_approved
from sessionizer.control.records.operation_record import (
    Ending,
    OperationRecord,
    pending_operation,
    read_operations,
)
from sessionizer.control.status.read_status import read_driver
from sessionizer.control.status.unfinished_operation import find_unfinished_operation
from sessionizer.deployment.running_spec import pending_changes, pending_line
from sessionizer.errors import OperationPending, SessionizerError, StreamMovedOn
from sessionizer.fleet.operation_words import stays_stopped
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import is_local
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.state.commands.steps import StartLineage, Stop
from sessionizer.state.downtime import downtime_of
from sessionizer.state.preconditions import find_changed_lineage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from sessionizer.cli.state_commands.shared_options import Shared
    from sessionizer.control.execution import Step, StepRunner
    from sessionizer.control.operation import Operation
    from sessionizer.control.plan_changes import Decided
    from sessionizer.state.commands.command import Command, Decision, Plan
    from sessionizer.stream_spec.document.stream import StreamSpec


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


def note_pending(error: SessionizerError, shared: Shared) -> None:
    """Add to the ``error`` of a command that an operation of its stream is pending, if so, and how to resume it."""
    if hasattr(error, "__notes__") or isinstance(error, OperationPending):
        return
    with suppress(SessionizerError):
        home, now = StreamHome.of(home_folder(shared.home), shared.stream), epoch_ms()
        pending = pending_operation(home)
        if pending is None:
            return
        found = find_unfinished_operation(home.name, pending, read_driver(home, now), now)
        for line in [found.standing] if found and found.is_at_work else stays_stopped(pending):
            error.add_note(line)


def note_edited_file(where: StreamHome, spec: StreamSpec) -> None:
    """Say so if the file's ``spec`` is not in force, because it was edited after the approval."""
    changes = pending_changes(where, spec)
    if changes:
        say(f"note: the file was edited after the approval. {pending_line(where.name, changes)}")


@dataclass(frozen=True, kw_only=True)
class TypedCommand:
    """A ``command`` with its ``shared`` options, on the stream of ``where``.

    ``pending``: the record of the same operation, if it was begun and is not over. ``savepoint``: its argument.
    """

    command: Command
    shared: Shared
    where: StreamHome
    pending: OperationRecord | None
    savepoint: str = ""

    def take_up(self, plan: Plan[Decision]) -> bool:
        """Show the ``plan``, and keep it if asked to. Return whether it is approved.

        Raises PlanChanged if another plan was approved. Raises the error of an approved plan that is impossible. Such a
        plan is not shown, because its lines say the same as the error.
        """
        approvable: Decided = self.pending or plan
        shared, digest = self.shared, approvable.digest
        if self.pending is None and shared.approve == digest and not shared.as_json:
            plan.require_possible()
        starts = any(isinstance(step, StartLineage) for step in plan.steps)
        offer = Offer(
            command=self.command,
            plan=plan,
            digest=digest,
            possible=plan.is_possible or self.pending is not None,
            savepoint=self.savepoint,
            down=downtime_of(self.where, self.command.name, new_lineage=starts) if Stop() in plan.steps else None,
        )
        if digest == plan.digest or shared.as_json:
            offer.show(as_json=shared.as_json, approved=shared.approve == digest)
        elif shared.approve is None:
            say(how_to_resume(digest))
        offer.keep(self.where, shared.keep_plan)
        return is_approved(self.where, shared.approve, approvable)

    def goes_on(self, pending: OperationRecord) -> bool:
        """Whether to continue an operation that was begun. If not, a line says how to. Raises PlanChanged."""
        if is_approved(self.where, self.shared.approve, pending):
            return True
        say(how_to_resume(pending.digest))
        return False

    def finish_activated(self) -> bool:
        """Note the end of an operation whose killed try has activated its lineage. Return whether nothing else is left.

        It needs neither Spark nor a plan, because no plan for the new lineage is the approved one.
        """
        pending = self.pending
        if pending is None or self.command.last_steps or find_changed_lineage(self.where, pending) is None:
            return False
        if self.goes_on(pending):
            typer.echo(
                _describe_done(self.carry_out(None, _ActivatedLineage(self.where), f"end of the {pending.verb}"))
            )
        return True

    def carry_out(self, plan: Plan[Decided] | None, runner: StepRunner, why: str) -> OperationRecord:
        """Run the approved plan, or go on with the pending operation. Return its record, done."""
        record = self.pending
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
                options=self.command.recorded(),
                decided=plan.decided,
            )
        return carry_out(self.where, record, why, self.shared.wait, runner)


@dataclass(frozen=True)
class _ActivatedLineage:
    """Runner of an operation whose lineage is active, and which has no further step."""

    home: StreamHome

    def find_activated(self, record: OperationRecord) -> str | None:
        """Return the active lineage of the operation."""
        return find_changed_lineage(self.home, record)

    def plan_again(self, record: OperationRecord) -> Plan[Decision]:
        """Make no plan, because another process has changed the stream."""
        raise StreamMovedOn(self.home.name, record.digest, "its lineage is no longer active")

    def last_steps(self) -> tuple[Step, ...]:
        """Return no step."""
        return ()

    def run(self, step: Step, _: Operation) -> None:
        """Run no step."""
        raise NotImplementedError(step)

    def clean_up(self, _: Operation) -> None:
        """Leave everything, because nothing was made."""


def how_to_resume(digest: str) -> str:
    """Say that the operation of ``digest`` is pending, and how to resume it."""
    return f"one was begun and is not finished. To resume it: the same command with --approve {digest}"


def is_approved(where: StreamHome, approve: str | None, plan: Decided) -> bool:
    """Whether the ``plan`` may be carried out. Raises PlanChanged if another plan was approved."""
    if approve is not None:
        require_approved(where, approve, plan)
    return approve is not None


@contextmanager
def working_spark(verb: str, where: StreamHome, master: str | None) -> Iterator[SparkSession]:
    """Start Spark for the verb. An error of Spark inside the block becomes one of ours."""
    say(f"starting Spark for the {verb} of {where.name}")
    spark = start_spark(f"sessionizer {verb} {where.name}", spark_master(master), local_data=is_local(where.data))
    with translate_failures(where.name):
        yield spark
    spark.stop()


def approver(by: str | None) -> str:
    """Return the name of the approving user."""
    return by or getpass.getuser()
