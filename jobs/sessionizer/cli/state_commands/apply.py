"""``sessionizer apply``: continue a stream by its changed spec. Shows the plan first, then does the approved plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sessionizer.cli.places import stream_home, stream_spec
from sessionizer.cli.savepoint_words import savepoints_folder
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.cli.state_commands.operations import (
    Offer,
    approver,
    begun_already,
    carried_out,
    goes_on,
    is_approved,
    taken_up,
    working_spark,
)
from sessionizer.cli.state_commands.typed import Shared, command_line
from sessionizer.cli.terminal import say
from sessionizer.control.operation import new_operation
from sessionizer.deployment.apply_plan import VERB, add_migrations, plan_apply
from sessionizer.lineage.applied_migrations import waiting_migrations
from sessionizer.state.commands.apply import Apply
from sessionizer.state.downtime import downtime_of
from sessionizer.state.lineages.standing import standing_of

if TYPE_CHECKING:
    from sessionizer.deployment.apply_plan import ApplyPlan


def run(command: Apply, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    stream, approve = shared.stream, shared.approve
    where, spec = stream_home(shared.home, stream, shared.data), stream_spec(shared.streams, stream)
    terms, record = command.terms, begun_already(where, VERB)
    options = command.recorded()

    def offer_of(plan: ApplyPlan) -> Offer:
        return Offer(
            verb=VERB,
            plan=plan,
            digest=plan.digest,
            possible=plan.is_possible,
            options=options,
            trial=terms if plan.anew else None,
            down=downtime_of(where, VERB),
        )

    if record is None:
        standing = standing_of(where)
        at = (standing.lineage, standing.batch_id)
        waiting = waiting_migrations(where, standing.lineage, spec)
        first = plan_apply(stream, at, standing.spec, spec, anew=command.anew, trial=terms)
        first = add_migrations(first, waiting)
        if not first.changes_something and carried_out(where, VERB, approve):
            return
        if not first.is_possible:  # nothing for Spark to look at
            if taken_up(where, offer_of(first), approve, shared.keep_plan, as_json=shared.as_json):
                first.require_possible()
            return
        is_approved(stream, approve, first.digest)
    from sessionizer.spark.failures.passing import tried_again  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.lineages.applying import Applying  # noqa: PLC0415  fast --help

    with working_spark(VERB, where, shared.master) as spark:
        applying = Applying(spark, where, spec, savepoints_folder(where, command.folder), command.anew, terms)
        if record is None:
            plan = tried_again(applying.plan, say)
            if (
                not taken_up(where, offer_of(plan), approve, shared.keep_plan, as_json=shared.as_json)
                or not plan.changes_something
            ):
                return
            plan.require_possible()
            leaves = (plan.lineage, plan.batch_id)
            record = new_operation(where, VERB, plan.digest, approver(shared.by), leaves, options=options)
        elif not goes_on(stream, approve, record):
            return
        record = carry_out(
            where,
            record,
            f"{VERB} of the changed spec",
            shared.wait,
            lambda lease, operation: applying.run(operation, lease.check, say),
        )
    typer.echo(f"stream {stream} goes on by its file in lineage {record.lineage_to} ({record.seconds} s)")


apply = command_line(Apply, run)
