"""Verb that changes a stream's state: shown as a plan, approved by its digest, carried out with the stream held."""

from __future__ import annotations

import getpass
import json
import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from sessionizer.cli.places import spark_master
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.cli.terminal import say, start_spark, translate_failures
from sessionizer.control.execution import require_approved
from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import (
    Ending,
    OperationRecord,
    PlanRecord,
    keep_plan_of,
    pending_operation,
    read_operations,
)
from sessionizer.errors import OperationPending
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import is_local
from sessionizer.lineage.active import active_lineage
from sessionizer.state.commands.steps import Canary, Stop
from sessionizer.state.downtime import downtime_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from sessionizer.cli.state_commands.typed import Shared
    from sessionizer.control.execution import StepRunner
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.canary.judge import Terms
    from sessionizer.state.commands.command import Command, Decided, Decision, Plan
    from sessionizer.state.downtime import Downtime


def find_begun(where: StreamHome, verb: str, savepoint: str = "") -> OperationRecord | None:
    """Return the record of the same operation if it was begun and is not over.

    Raises OperationPending for any other, and DamagedFile, ControlUnreachable.
    """
    pending = pending_operation(where)
    if pending is not None and (pending.verb, pending.savepoint) != (verb, savepoint):
        raise OperationPending(where.name, pending.verb, pending.savepoint, pending.step)
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
    done = f"operation {newest.id} has carried out what you approve ({newest.seconds} s)"
    typer.echo(f"stream {where.name} is in lineage {newest.lineage_to}: {done}")
    return True


@dataclass(frozen=True, kw_only=True)
class Offer:
    """The ``plan`` of a command, to be approved by its ``digest``. ``possible``: whether it can be carried out.

    ``savepoint``: argument of the command, kept with its options for a process elsewhere that carries it out.
    ``down``: the expected downtime of the stream.
    """

    command: Command
    plan: Plan[Decision]
    digest: str
    possible: bool
    savepoint: str = ""
    down: Downtime | None = None

    @property
    def canary(self) -> Terms | None:
        """Terms of the canary of a new lineage, None without one."""
        return self.command.terms if any(isinstance(step, Canary) for step in self.plan.steps) else None

    def lines(self) -> list[str]:
        """Return the plan, canary and downtime as lines for users."""
        on_canary = [f"  {canary_line(self.canary)}"] if self.canary and self.possible else []
        down = [f"  {self.down.line()}"] if self.down and self.possible else []
        return [*self.plan.decision.lines(), *on_canary, *down]

    def show(self, *, as_json: bool, approved: bool = False) -> None:
        """Print the plan, and how to approve it unless it is approved."""
        if as_json:
            on_canary = {"trial": self.canary.to_json()} if self.canary else {}
            down = {"downtime": self.down.to_json()} if self.down else {}
            typer.echo(json.dumps({**self.plan.decision.to_json(), **on_canary, **down}, indent=1))
            return
        for line in self.lines():
            typer.echo(line)
        if self.possible and not approved:
            typer.echo(f"to run it: the same command with --approve {self.digest}")

    def keep(self, where: StreamHome, request: str | None) -> None:
        """Keep the plan of a ``request``, unless it has one. A plan that a user has seen must not be replaced."""
        if request is None:
            return
        plan = PlanRecord(
            request=request,
            verb=self.command.name,
            stream=where.name,
            savepoint=self.savepoint,
            options=shlex.join(self.command.recorded()),
            digest=self.digest,
            possible=self.possible,
            text="\n".join(self.lines()),
            made_at=epoch_ms(),
        )
        kept = keep_plan_of(where, plan)
        same = kept.digest == self.digest
        say(f"kept as the plan of {request}" if same else f"the plan of {request} is {kept.digest} and stays so")


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

        Raises PlanChanged if another plan was approved.
        """
        shared, digest = self.shared, self.pending.digest if self.pending else plan.digest
        offer = Offer(
            command=self.command,
            plan=plan,
            digest=digest,
            possible=plan.is_possible or self.pending is not None,
            savepoint=self.savepoint,
            down=downtime_of(self.where, self.command.name) if Stop() in plan.steps else None,
        )
        offer.show(as_json=shared.as_json, approved=shared.approve == digest)
        offer.keep(self.where, shared.keep_plan)
        return is_approved(shared.stream, shared.approve, digest)

    def goes_on(self, pending: OperationRecord) -> bool:
        """Whether to continue an operation that was begun. If not, a line says how to. Raises PlanChanged."""
        if is_approved(self.shared.stream, self.shared.approve, pending.digest):
            return True
        say(f"one was begun and is not finished. To resume it: the same command with --approve {pending.digest}")
        return False

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
            )
        return carry_out(self.where, record, why, self.shared.wait, runner)


def is_approved(stream: str, approve: str | None, digest: str) -> bool:
    """Whether the plan of ``digest`` may be carried out. Raises PlanChanged if another plan was approved."""
    if approve is not None:
        require_approved(stream, approve, digest)
    return approve is not None


def canary_line(terms: Terms) -> str:
    """Describe the canary of a new lineage in one line."""
    then = "rolls back" if terms.goes_back else "ends and says why"
    return f"its first {terms.batches} batches are a canary: if its figures are worse than before, the driver {then}"


@contextmanager
def working_spark(verb: str, where: StreamHome, master: str | None) -> Iterator[SparkSession]:
    """Start Spark for the verb. An error of Spark inside the block becomes one of ours."""
    say(f"starting Spark to {verb} {where.name}")
    spark = start_spark(f"sessionizer {verb} {where.name}", spark_master(master), local_data=is_local(where.data))
    with translate_failures(where.name):
        yield spark
    spark.stop()


def approver(by: str | None) -> str:
    """Return the name of the approving user."""
    return by or getpass.getuser()
