"""``sessionizer apply``: a stream goes on by its changed spec. Shows the plan first, and does what is approved."""

from __future__ import annotations

from typing import Annotated

import typer

from sessionizer.cli.operation_run import carry_out
from sessionizer.cli.operations import (
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
    taken_up,
    terms_of,
    trial_options,
    working_spark,
)
from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, Streams, stream_home, stream_spec
from sessionizer.cli.savepoint_words import Folder, savepoints_folder
from sessionizer.cli.terminal import say
from sessionizer.control.operation import new_operation
from sessionizer.deployment.apply_plan import VERB
from sessionizer.lineage.trial.judging import BATCHES


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
    """Show what going on by the changed file would do; with --approve DIGEST, do it. Typed again it goes on."""
    where, spec = stream_home(home, stream, data), stream_spec(streams, stream)
    terms, record = terms_of(trial, back_if_unfit=back_if_unfit), begun_already(where, VERB)
    from sessionizer.spark.state.lineages.applying import Applying  # noqa: PLC0415  fast --help

    anew = new_lineage or back_if_unfit  # there must be something to go back from
    with working_spark(VERB, where, master) as spark:
        applying = Applying(spark, where, spec, savepoints_folder(where, folder), anew, terms)
        if record is None:
            plan = applying.plan()
            if not plan.changes_something and carried_out(where, VERB, approve):
                return
            options = given({"--new-lineage": new_lineage, **trial_options(terms)})
            offer = Offer(
                verb=VERB,
                plan=plan,
                digest=plan.digest,
                possible=plan.is_possible,
                options=options,
                trial=terms if plan.anew else None,
            )
            if not taken_up(where, offer, approve, keep_plan, as_json=as_json) or not plan.changes_something:
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
