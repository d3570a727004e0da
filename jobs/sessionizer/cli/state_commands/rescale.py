"""``sessionizer rescale``: divide the state into other key groups.

Shows the plan first, then does the approved plan.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, Streams, stream_home, stream_spec
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.cli.state_commands.operations import (
    Approve,
    BackIfUnfit,
    By,
    KeepPlan,
    Offer,
    TrialBatches,
    Wait,
    approver,
    begun_already,
    carried_out,
    given,
    taken_up,
    terms_of,
    trial_options,
    working_spark,
)
from sessionizer.cli.terminal import say
from sessionizer.control.operation import new_operation
from sessionizer.deployment.refusals import KEY_GROUPS
from sessionizer.lineage.trial.judging import BATCHES
from sessionizer.state.downtime import downtime_of
from sessionizer.state.lineages.rescale_plan import VERB, plan_rescale
from sessionizer.state.lineages.standing import standing_of
from sessionizer.stream_spec.document.stream import MOST_KEY_GROUPS

KeyGroups = Annotated[
    int | None,
    typer.Option(help="Number of key groups; what the spec's file says if not given.", min=1, max=MOST_KEY_GROUPS),
]
Partitions = Annotated[
    int | None, typer.Option(help="Number of partitions, each a task of a batch; as it is if not given.", min=1)
]


def rescale(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    key_groups: KeyGroups = None,
    partitions: Partitions = None,
    trial: TrialBatches = BATCHES,
    back_if_unfit: BackIfUnfit = False,
    approve: Approve = None,
    wait: Wait = 300.0,
    by: By = None,
    keep_plan: KeepPlan = None,
    as_json: AsJson = False,
    streams: Streams = None,
    home: Home = None,
    data: Data = None,
    master: Master = None,
) -> None:
    """Show how a stream's state would be divided anew. With --approve DIGEST, do it. Typed again it continues."""
    where, spec = stream_home(home, stream, data), stream_spec(streams, stream)
    in_file = spec.key_groups
    if carried_out(where, VERB, approve):
        return
    groups = in_file if key_groups is None else key_groups
    terms, pending = terms_of(trial, back_if_unfit=back_if_unfit), begun_already(where, VERB)
    plan = plan_rescale(stream, standing_of(where), groups, partitions, terms)
    digest = pending.digest if pending else plan.digest
    possible = pending is not None or plan.changes_something
    options = given({"--key-groups": key_groups, "--partitions": partitions, **trial_options(terms)})
    offer = Offer(
        verb=VERB,
        plan=plan,
        digest=digest,
        possible=possible,
        options=options,
        trial=terms,
        down=downtime_of(where, VERB),
    )
    if not taken_up(where, offer, approve, keep_plan, as_json=as_json) or not possible:
        return
    from sessionizer.spark.state.lineages.rescaling import rescaled  # noqa: PLC0415  fast --help

    leaves = (plan.lineage, plan.batch_id)
    record = pending or new_operation(where, VERB, digest, approver(by), leaves, options=options)
    with working_spark(VERB, where, master) as spark:
        record = carry_out(
            where,
            record,
            f"{VERB} to {plan.now}",
            wait,
            lambda lease, operation: rescaled(spark, plan, lease, operation, lambda step: say(f"new lineage: {step}")),
        )
    typer.echo(f"stream {stream} goes on in lineage {record.lineage_to}: {plan.now} ({record.seconds} s)")
    if groups != in_file:
        says = f"key_groups: {in_file}" if KEY_GROUPS in spec.model_fields_set else f"nothing, so {in_file} key groups"
        say(f"note: its file says {says}. Write {KEY_GROUPS}: {groups} there, or the next --apply is refused")
