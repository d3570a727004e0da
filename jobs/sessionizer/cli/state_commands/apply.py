"""``sessionizer apply``: continue a stream by its changed spec. Shows the plan first, then does the approved plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, Streams, stream_home, stream_spec
from sessionizer.cli.savepoint_words import Folder, savepoints_folder
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
    goes_on,
    is_approved,
    taken_up,
    terms_of,
    trial_options,
    working_spark,
)
from sessionizer.cli.terminal import say
from sessionizer.control.operation import new_operation
from sessionizer.deployment.apply_plan import VERB, plan_apply
from sessionizer.lineage.trial.judging import BATCHES
from sessionizer.state.downtime import downtime_of
from sessionizer.state.lineages.standing import standing_of

if TYPE_CHECKING:
    from sessionizer.deployment.apply_plan import ApplyPlan


def apply(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    new_lineage: Annotated[
        bool, typer.Option("--new-lineage", help="Also where its lineage could take it: on trial, with a way back.")
    ] = False,
    trial: TrialBatches = BATCHES,
    back_if_unfit: BackIfUnfit = False,
    approve: Approve = None,
    wait: Wait = 300.0,
    by: By = None,
    keep_plan: KeepPlan = None,
    folder: Folder = None,
    as_json: AsJson = False,
    streams: Streams = None,
    home: Home = None,
    data: Data = None,
    master: Master = None,
) -> None:
    """Show what continuing by the changed file would do. With --approve DIGEST, do it. Typed again it continues."""
    where, spec = stream_home(home, stream, data), stream_spec(streams, stream)
    terms, record = terms_of(trial, back_if_unfit=back_if_unfit), begun_already(where, VERB)
    anew = new_lineage or back_if_unfit  # there must be something to go back from
    options = given({"--new-lineage": new_lineage, **trial_options(terms)})

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
        first = plan_apply(stream, at, standing.spec, spec, anew=anew, trial=terms)
        if not first.changes_something and carried_out(where, VERB, approve):
            return
        if not first.is_possible:  # nothing for Spark to look at
            if taken_up(where, offer_of(first), approve, keep_plan, as_json=as_json):
                first.require_possible()
            return
        is_approved(stream, approve, first.digest)
    from sessionizer.spark.failures.passing import tried_again  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.lineages.applying import Applying  # noqa: PLC0415  fast --help

    with working_spark(VERB, where, master) as spark:
        applying = Applying(spark, where, spec, savepoints_folder(where, folder), anew, terms)
        if record is None:
            plan = tried_again(applying.plan, say)
            if not taken_up(where, offer_of(plan), approve, keep_plan, as_json=as_json) or not plan.changes_something:
                return
            plan.require_possible()
            leaves = (plan.lineage, plan.batch_id)
            record = new_operation(where, VERB, plan.digest, approver(by), leaves, options=options)
        elif not goes_on(stream, approve, record):
            return
        record = carry_out(
            where,
            record,
            f"{VERB} of the changed spec",
            wait,
            lambda lease, operation: applying.run(operation, lease.check, say),
        )
    typer.echo(f"stream {stream} goes on by its file in lineage {record.lineage_to} ({record.seconds} s)")
