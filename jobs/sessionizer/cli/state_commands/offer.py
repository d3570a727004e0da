"""The plan of a command as a user sees it: with canary and downtime, and the digest that approves it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from sessionizer.cli.terminal import say, this_command_line
from sessionizer.control.records.operation_record import PlanRecord, keep_plan_of
from sessionizer.counts import count_text
from sessionizer.home.clock import epoch_ms
from sessionizer.state.commands.steps import Canary

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.canary.judge import CanaryTerms
    from sessionizer.state.commands.command import Command, Decision, Plan
    from sessionizer.state.downtime import Downtime


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
    def canary(self) -> CanaryTerms | None:
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
        typed = this_command_line()
        for line in self.lines():
            typer.echo(typed.complete(line))
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
            decided=self.plan.decided,
        )
        kept = keep_plan_of(where, plan)
        same = kept.digest == self.digest
        say(f"kept as the plan of {request}" if same else f"the plan of {request} is {kept.digest} and stays so")


def canary_line(terms: CanaryTerms) -> str:
    """Describe the canary of a new lineage in one line."""
    then = "rolls back" if terms.goes_back else "ends and says why"
    return f"canary of {count_text(terms.batches, 'batch')}: if its figures are worse than before, the driver {then}"
