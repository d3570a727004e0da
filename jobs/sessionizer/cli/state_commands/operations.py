"""Verb that changes a stream's state: shown as a plan, approved by its digest, carried out with the stream held."""

from __future__ import annotations

import getpass
import json
import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import typer

from sessionizer.cli.places import spark_master
from sessionizer.cli.terminal import named_failures, say, started_spark
from sessionizer.control.records.operation_record import Ending, OperationRecord, pending_operation, read_operations
from sessionizer.control.records.plan_record import PlanRecord, keep_plan_of
from sessionizer.errors import OperationPending, PlanChanged
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_root import is_local
from sessionizer.lineage.active import active_lineage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.trial.judging import Terms
    from sessionizer.state.downtime import Downtime


class Plan(Protocol):
    """Plan of a verb."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""

    def lines(self) -> Iterable[str]:
        """Return the plan as lines for users."""


def begun_already(where: StreamHome, verb: str, savepoint: str = "") -> OperationRecord | None:
    """Return the record of the same operation if it was begun and is not over.

    Raises OperationPending for any other, and DamagedFile, ControlUnreachable.
    """
    pending = pending_operation(where)
    if pending is not None and (pending.verb, pending.savepoint) != (verb, savepoint):
        raise OperationPending(where.name, pending.verb, pending.savepoint, pending.step)
    return pending


def carried_out(where: StreamHome, verb: str, approve: str | None) -> bool:
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
    """The ``plan`` of a ``verb``, to be approved by its ``digest``. ``possible``: whether it can be carried out.

    ``savepoint`` and ``options`` are the command's arguments, kept for a command elsewhere that carries it out.
    ``trial``: the trial of a new lineage, None if there is none. ``down``: the expected downtime of the stream.
    """

    verb: str
    plan: Plan
    digest: str
    possible: bool = True
    savepoint: str = ""
    options: Sequence[str] = ()
    trial: Terms | None = None
    down: Downtime | None = None

    def lines(self) -> list[str]:
        """Return the plan, trial and downtime as lines for users."""
        on_trial = [f"  {trial_line(self.trial)}"] if self.trial and self.possible else []
        down = [f"  {self.down.line()}"] if self.down and self.possible else []
        return [*self.plan.lines(), *on_trial, *down]

    def show(self, *, as_json: bool, approved: bool = False) -> None:
        """Print the plan, and how to approve it unless it is approved."""
        if as_json:
            on_trial = {"trial": self.trial.to_json()} if self.trial else {}
            down = {"downtime": self.down.to_json()} if self.down else {}
            typer.echo(json.dumps({**self.plan.to_json(), **on_trial, **down}, indent=1))
            return
        for line in self.lines():
            typer.echo(line)
        if self.possible and not approved:
            typer.echo(f"to do so: the same command with --approve {self.digest}")

    def keep(self, where: StreamHome, request: str | None) -> None:
        """Keep the plan of a ``request``, unless it has one. A plan that a user has seen must not be replaced."""
        if request is None:
            return
        plan = PlanRecord(
            request=request,
            verb=self.verb,
            stream=where.name,
            savepoint=self.savepoint,
            options=shlex.join(self.options),
            digest=self.digest,
            possible=self.possible,
            text="\n".join(self.lines()),
            made_at=epoch_ms(),
        )
        kept = keep_plan_of(where, plan)
        same = kept.digest == self.digest
        say(f"kept as the plan of {request}" if same else f"the plan of {request} is {kept.digest} and stays so")


def taken_up(where: StreamHome, offer: Offer, approve: str | None, keep_plan: str | None, *, as_json: bool) -> bool:
    """Show the ``offer`` and keep it if asked to. Return whether it was approved.

    Raises PlanChanged if another plan was approved.
    """
    offer.show(as_json=as_json, approved=approve == offer.digest)
    offer.keep(where, keep_plan)
    return is_approved(where.name, approve, offer.digest)


def is_approved(stream: str, approve: str | None, digest: str) -> bool:
    """Whether the plan of ``digest`` may be carried out. Raises PlanChanged if another plan was approved."""
    if approve is not None and approve != digest:
        raise PlanChanged(stream, approve, digest)
    return approve is not None


def trial_line(terms: Terms) -> str:
    """Describe the trial of a new lineage in one line."""
    then = "goes back by itself" if terms.goes_back else "ends, and says why"
    return f"its first {terms.batches} batches are a trial: if its figures are worse than before, the driver {then}"


def goes_on(stream: str, approve: str | None, record: OperationRecord) -> bool:
    """Whether to continue an operation that was begun. If not, a line says how to. Raises PlanChanged."""
    if is_approved(stream, approve, record.digest):
        return True
    say(f"one was begun and is not over: the same command with --approve {record.digest} goes on with it")
    return False


@contextmanager
def working_spark(verb: str, where: StreamHome, master: str | None) -> Iterator[SparkSession]:
    """Start Spark for the verb. An error of Spark inside the block becomes one of ours."""
    say(f"starting Spark to {verb} {where.name}")
    spark = started_spark(f"sessionizer {verb} {where.name}", spark_master(master), local_data=is_local(where.data))
    with named_failures(where.name):
        yield spark
    spark.stop()


def approver(by: str | None) -> str:
    """Return the name of the approving user."""
    return by or getpass.getuser()
