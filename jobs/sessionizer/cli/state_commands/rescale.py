"""``sessionizer rescale``: divide the state into other key groups.

Shows the plan first, then does the approved plan.
"""

from __future__ import annotations

import typer

from sessionizer.cli.places import stream_home, stream_spec
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.cli.state_commands.operations import (
    Offer,
    approver,
    begun_already,
    carried_out,
    taken_up,
    working_spark,
)
from sessionizer.cli.state_commands.typed import Shared, command_line
from sessionizer.cli.terminal import say
from sessionizer.control.operation import new_operation
from sessionizer.deployment.refusals import KEY_GROUPS
from sessionizer.state.commands.rescale import Rescale
from sessionizer.state.downtime import downtime_of
from sessionizer.state.lineages.rescale_plan import VERB, plan_rescale
from sessionizer.state.lineages.standing import standing_of


def run(command: Rescale, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    stream, approve = shared.stream, shared.approve
    where, spec = stream_home(shared.home, stream, shared.data), stream_spec(shared.streams, stream)
    in_file = spec.key_groups
    if carried_out(where, VERB, approve):
        return
    groups = in_file if command.key_groups is None else command.key_groups
    terms, pending = command.terms, begun_already(where, VERB)
    plan = plan_rescale(stream, standing_of(where), groups, command.partitions, terms)
    digest = pending.digest if pending else plan.digest
    possible = pending is not None or plan.changes_something
    options = command.recorded()
    offer = Offer(
        verb=VERB,
        plan=plan,
        digest=digest,
        possible=possible,
        options=options,
        trial=terms,
        down=downtime_of(where, VERB),
    )
    if not taken_up(where, offer, approve, shared.keep_plan, as_json=shared.as_json) or not possible:
        return
    from sessionizer.spark.state.lineages.rescaling import rescaled  # noqa: PLC0415  fast --help

    leaves = (plan.lineage, plan.batch_id)
    record = pending or new_operation(where, VERB, digest, approver(shared.by), leaves, options=options)
    with working_spark(VERB, where, shared.master) as spark:
        record = carry_out(
            where,
            record,
            f"{VERB} to {plan.now}",
            shared.wait,
            lambda lease, operation: rescaled(spark, plan, lease, operation, lambda step: say(f"new lineage: {step}")),
        )
    typer.echo(f"stream {stream} goes on in lineage {record.lineage_to}: {plan.now} ({record.seconds} s)")
    if groups != in_file:
        says = f"key_groups: {in_file}" if KEY_GROUPS in spec.model_fields_set else f"nothing, so {in_file} key groups"
        say(f"note: its file says {says}. Write {KEY_GROUPS}: {groups} there, or the next --apply is refused")


rescale = command_line(Rescale, run)
