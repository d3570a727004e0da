"""``sessionizer switch``: continue the open sessions with another source.

Shows the plan first, then does the approved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
    is_approved,
    taken_up,
    terms_of,
    trial_options,
    working_spark,
)
from sessionizer.cli.terminal import say
from sessionizer.control.operation import new_operation
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.errors import InvalidSpec
from sessionizer.lineage.trial.judging import BATCHES
from sessionizer.state.downtime import downtime_of
from sessionizer.state.lineages.origin import activated_by
from sessionizer.state.lineages.standing import standing_of
from sessionizer.state.lineages.switch_plan import VERB, Start, require_switch, switch_digest
from sessionizer.stream_spec.decisions import changes_between, decided_by, decisions_of, spec_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.state.lineages.loss_plan import LossPlan
    from sessionizer.state.lineages.switch_plan import SwitchPlan

StartAt = Annotated[
    str | None,
    typer.Option(help="Where the new source begins: earliest, latest, or a moment in ISO 8601 (UTC) from which on."),
]
AcceptLoss = Annotated[
    bool, typer.Option("--accept-loss", help="Go on with the same source, without the events that are gone from it.")
]


def switch(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    start_at: StartAt = None,
    accept_loss: AcceptLoss = False,
    leave_unread: Annotated[
        bool, typer.Option("--leave-unread", help="Also if the old source has more that was not read.")
    ] = False,
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
    """Show what going on with the source that the file names now would do. With --approve DIGEST, do it."""
    where, spec = stream_home(home, stream, data), stream_spec(streams, stream)
    start = _start(start_at, accept_loss=accept_loss, leave_unread=leave_unread)
    if carried_out(where, VERB, approve):
        return
    terms, pending = terms_of(trial, back_if_unfit=back_if_unfit), begun_already(where, VERB)
    if pending is None and start is not None:  # refused before Spark starts
        standing = standing_of(where)
        require_switch(changes_between(decided_by(standing.spec), decisions_of(spec)))
        is_approved(stream, approve, switch_digest(stream, standing.lineage, spec_fingerprint(spec), start, terms))
    from sessionizer.spark.failures.passing import tried_again  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.lineages.accepting_loss import AcceptingLoss  # noqa: PLC0415
    from sessionizer.spark.state.lineages.switching import Switching  # noqa: PLC0415

    with working_spark(VERB, where, master) as spark:
        switching: Switching | AcceptingLoss
        if start is None:
            switching = AcceptingLoss(spark, where, spec_in_force(where, spec), terms)
        else:
            switching = Switching(spark, where, spec, start, terms, leave_unread=leave_unread)
        if pending is None or activated_by(where, pending) is None:
            look: Callable[[], SwitchPlan | LossPlan] = switching.plan
            plan = tried_again(look, say)
            options = given({"--start-at": start_at, "--accept-loss": accept_loss, "--leave-unread": leave_unread})
            options += given(trial_options(terms))
            offer = Offer(
                verb=VERB, plan=plan, digest=plan.digest, options=options, trial=terms, down=downtime_of(where, VERB)
            )
            if not taken_up(where, offer, approve, keep_plan, as_json=as_json):
                return
            leaves = (plan.lineage, plan.batch_id)
            record = pending or new_operation(where, VERB, plan.digest, approver(by), leaves, options=options)
        else:
            record = pending
        record = carry_out(
            where,
            record,
            f"{VERB} of the source",
            wait,
            lambda lease, operation: switching.run(
                operation, lease.check, after=lambda step: say(f"new lineage: {step}")
            ),
        )
    with_what = "without what is gone from its source" if accept_loss else "with its new source"
    typer.echo(f"stream {stream} goes on {with_what} in lineage {record.lineage_to} ({record.seconds} s)")


def _start(start_at: str | None, *, accept_loss: bool, leave_unread: bool) -> Start | None:
    """Return the position at which another source begins. None if the stream keeps its source. Raises InvalidSpec."""
    if not accept_loss:
        if start_at is None:
            raise InvalidSpec("--start-at", None, "earliest, latest or a moment; or --accept-loss for the same source")
        return Start.of(start_at)
    if start_at is not None:
        raise InvalidSpec("--start-at", start_at, "another source. Omit it: --accept-loss goes on with the same one")
    if leave_unread:
        raise InvalidSpec("--leave-unread", "given", "another source. Omit it: --accept-loss reads all that is there")
    return None
