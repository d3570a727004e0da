"""``sessionizer switch``: continue the open sessions with another source.

Shows the plan first, then does the approved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sessionizer.cli.places import stream_home, stream_spec
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.cli.state_commands.operations import (
    Offer,
    approver,
    begun_already,
    carried_out,
    is_approved,
    taken_up,
    working_spark,
)
from sessionizer.cli.state_commands.typed import Shared, command_line
from sessionizer.cli.terminal import say
from sessionizer.control.operation import new_operation
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.state.commands.switch import Switch
from sessionizer.state.downtime import downtime_of
from sessionizer.state.lineages.origin import activated_by
from sessionizer.state.lineages.standing import standing_of
from sessionizer.state.lineages.switch_plan import VERB, require_switch, switch_digest
from sessionizer.stream_spec.decisions import changes_between, decided_by, decisions_of, spec_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.state.lineages.loss_plan import LossPlan
    from sessionizer.state.lineages.switch_plan import SwitchPlan


def run(command: Switch, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    stream, approve, accept_loss = shared.stream, shared.approve, command.accept_loss
    where, spec = stream_home(shared.home, stream, shared.data), stream_spec(shared.streams, stream)
    start = command.start()
    if carried_out(where, VERB, approve):
        return
    terms, pending = command.terms, begun_already(where, VERB)
    if pending is None and start is not None:  # refused before Spark starts
        standing = standing_of(where)
        require_switch(changes_between(decided_by(standing.spec), decisions_of(spec)))
        is_approved(stream, approve, switch_digest(stream, standing.lineage, spec_fingerprint(spec), start, terms))
    from sessionizer.spark.failures.passing import tried_again  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.lineages.accepting_loss import AcceptingLoss  # noqa: PLC0415
    from sessionizer.spark.state.lineages.switching import Switching  # noqa: PLC0415

    with working_spark(VERB, where, shared.master) as spark:
        switching: Switching | AcceptingLoss
        if start is None:
            switching = AcceptingLoss(spark, where, spec_in_force(where, spec), terms)
        else:
            switching = Switching(spark, where, spec, start, terms, leave_unread=command.leave_unread)
        if pending is None or activated_by(where, pending) is None:
            look: Callable[[], SwitchPlan | LossPlan] = switching.plan
            plan = tried_again(look, say)
            options = command.recorded()
            offer = Offer(
                verb=VERB, plan=plan, digest=plan.digest, options=options, trial=terms, down=downtime_of(where, VERB)
            )
            if not taken_up(where, offer, approve, shared.keep_plan, as_json=shared.as_json):
                return
            leaves = (plan.lineage, plan.batch_id)
            record = pending or new_operation(where, VERB, plan.digest, approver(shared.by), leaves, options=options)
        else:
            record = pending
        record = carry_out(
            where,
            record,
            f"{VERB} of the source",
            shared.wait,
            lambda lease, operation: switching.run(
                operation, lease.check, after=lambda step: say(f"new lineage: {step}")
            ),
        )
    with_what = "without what is gone from its source" if accept_loss else "with its new source"
    typer.echo(f"stream {stream} goes on {with_what} in lineage {record.lineage_to} ({record.seconds} s)")


switch = command_line(Switch, run)
