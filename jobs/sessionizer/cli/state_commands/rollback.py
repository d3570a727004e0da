"""``sessionizer rollback``: go back to the lineage before. Shows the plan first, then does the approved plan.

This module also has ``sessionizer promote``, which keeps a lineage.
"""

from __future__ import annotations

import typer

from sessionizer.cli.places import Home, Stream, stream_home
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
from sessionizer.cli.state_commands.typed import By, Shared, command_line
from sessionizer.cli.terminal import say
from sessionizer.control.operation import new_operation
from sessionizer.lineage.trial.trial_record import accepted
from sessionizer.state.commands.rollback import Rollback
from sessionizer.state.downtime import downtime_of
from sessionizer.state.lineages.origin import rollback_of
from sessionizer.state.restores.rollback_plan import VERB, rollback_digest


def run(_: Rollback, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    stream, approve = shared.stream, shared.approve
    where = stream_home(shared.home, stream, shared.data)
    if carried_out(where, VERB, approve):
        return
    record = begun_already(where, VERB)
    if record is None:  # refused before Spark starts
        before, leaves = rollback_of(where)[1:]
        is_approved(stream, approve, rollback_digest(stream, leaves, before))
    from sessionizer.spark.failures.passing import tried_again  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.restores.rolling_back import plan_rollback, roll_back  # noqa: PLC0415  fast --help

    with working_spark(VERB, where, shared.master) as spark:
        if record is None:
            plan = tried_again(lambda: plan_rollback(spark, where), say)
            offer = Offer(
                verb=VERB, plan=plan, digest=plan.digest, possible=plan.is_possible, down=downtime_of(where, VERB)
            )
            if not taken_up(where, offer, approve, shared.keep_plan, as_json=shared.as_json):
                return
            plan.require_possible()
            record = new_operation(where, VERB, plan.digest, approver(shared.by), (plan.leaves, plan.newest_batch))
        elif not goes_on(stream, approve, record):
            return
        record = carry_out(
            where,
            record,
            VERB,
            shared.wait,
            lambda lease, operation: roll_back(spark, operation, lease.check, say),
        )
    typer.echo(f"stream {stream} is back in lineage {record.lineage_to} ({record.seconds} s)")


rollback = command_line(Rollback, run)


def promote(stream: Stream, *, by: By = None, home: Home = None) -> None:
    """Keep the stream's lineage, whatever its canary found or would find."""
    typer.echo(accepted(stream_home(home, stream), approver(by)))
