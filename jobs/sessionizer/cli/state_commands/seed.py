"""``sessionizer seed``: begin a stream with a history. Shows the plan first, then does the approved plan."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, Streams, stream_home, stream_spec
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.cli.state_commands.operations import (
    Approve,
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
from sessionizer.control.records.operation_record import Reached
from sessionizer.core.definition.rules import TimeMode
from sessionizer.errors import InvalidSpec, PlanChanged, StreamBegun
from sessionizer.home.clock import epoch_ms, moment_of
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.checkpoint import begun_batch
from sessionizer.lineage.trial.judging import BATCHES
from sessionizer.state.downtime import downtime_of
from sessionizer.state.seeds.seed_plan import BEGINNING, NOW, SOURCE, VERB, Decision, SeedPlan
from sessionizer.stream_spec.decisions import spec_fingerprint

if TYPE_CHECKING:
    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.spark.history.taking import Taking

_POSITION = '{"clicks":{"0":1200}}'


History = Annotated[
    str, typer.Option(help=f"Folder or URI of files or a Delta table; jdbc:…; checkpoint:…; or {SOURCE!r}, its own.")
]
Table = Annotated[
    str | None, typer.Option(help="Table or view of a database; part of a checkpoint's state, as OPERATOR/NAME.")
]
Query = Annotated[
    str | None,
    typer.Option(help="What makes rows of the source out of those of a table or state: select … from history."),
]
User = Annotated[str | None, typer.Option(help="Of the database; JDBC_PASSWORD holds the password.")]
Until = Annotated[
    str | None, typer.Option(help="The moment T, ISO 8601; else the watermark that the history leads to.")
]
LiveFrom = Annotated[
    str | None, typer.Option(help=f"{BEGINNING!r}, {NOW!r}, or the source's position as Spark writes it.")
]
Backfill = Annotated[bool, typer.Option("--backfill", help="Write the finished sessions into the tables.")]
StartOver = Annotated[
    bool, typer.Option("--start-over", help="Leave the lineage that the stream has, and delete the rows that it wrote.")
]


def seed(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    history: History,
    table: Table = None,
    user: User = None,
    query: Query = None,
    until: Until = None,
    live_from: LiveFrom = None,
    backfill: Backfill = False,
    start_over: StartOver = False,
    trial: TrialBatches = BATCHES,
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
    """Show how a stream would begin with a history. With --approve DIGEST, do it. Typed again it continues."""
    where, spec = stream_home(home, stream, data), stream_spec(streams, stream)
    if carried_out(where, VERB, approve):
        return
    if spec.rules.time_mode is not TimeMode.EVENT_TIME:
        raise InvalidSpec(
            "rules.time_mode", spec.rules.time_mode.value, "event_time: a history does not say when it came"
        )
    terms = terms_of(trial, like_before=False) if start_over else None  # else there is no lineage to compare with
    pending = begun_already(where, VERB)
    leaves = _leaves(where, pending, start_over=start_over)
    from sessionizer.spark.failures.passing import tried_again  # noqa: PLC0415  fast --help
    from sessionizer.spark.history.beginning import Beginning  # noqa: PLC0415  fast --help
    from sessionizer.spark.history.past_rows import past_at  # noqa: PLC0415
    from sessionizer.spark.history.taking import Taking  # noqa: PLC0415
    from sessionizer.spark.sinks.examine import examine  # noqa: PLC0415

    past, source = past_at(history, spec.source, table, user, query)
    asked = (_moment(until), _live_from(history, live_from), backfill, leaves)
    decision = Decision(stream, spec_fingerprint(spec), past, *asked, terms)
    _require_unchanged(where, pending, decision, wait)
    digest = pending.digest if pending else decision.digest
    approved = is_approved(stream, approve, digest)
    options = given({"--history": history, "--table": table, "--user": user, "--query": query, "--until": until})
    options += given({"--live-from": live_from, "--backfill": backfill, "--start-over": start_over})
    options += given(trial_options(terms)) if start_over else []
    with working_spark(VERB, where, master) as spark:
        examined = examine(spark, spec, where.platform)
        taking = Taking(spark, spec, examined, source, decision, where.platform)
        if not approved:
            offer = Offer(
                verb=VERB,
                plan=tried_again(lambda: _planned(taking, where), say),
                digest=digest,
                options=options,
                trial=terms,
                down=downtime_of(where, VERB),
            )
            taken_up(where, offer, approve, keep_plan, as_json=as_json)
            return
        where.prepare()
        newest = -1 if leaves is None else begun_batch(where.checkpoint(leaves))
        left = (leaves or "", -1 if newest is None else newest)
        record = pending or new_operation(where, VERB, digest, approver(by), left, options=options)
        record = carry_out(
            where,
            record,
            f"{VERB} from {past}",
            wait,
            lambda lease, operation: Beginning(taking, lease, operation, say, terms).run(),
        )
    typer.echo(f"stream {stream} begins in lineage {record.lineage_to} ({record.seconds} s)")


def _leaves(where: StreamHome, pending: OperationRecord | None, *, start_over: bool) -> str | None:
    """Return the lineage that is left. Raises StreamBegun if the stream has one and ``start_over`` is not set."""
    if pending is not None:
        return pending.lineage_from or None
    active = active_lineage(where)
    if active is not None and not start_over:
        raise StreamBegun(where.name, active)
    return active


def _require_unchanged(where: StreamHome, pending: OperationRecord | None, decision: Decision, wait: float) -> None:
    """Abandon a seed that was begun by another plan and had taken nothing yet, and raise PlanChanged.

    Raises LeaseHeld if a process carries it out.
    """
    if pending is not None and not pending.has_done(Reached.TAKEN) and pending.digest != decision.digest:
        changed = PlanChanged(where.name, pending.digest, decision.digest)
        carry_out(where, pending, f"{VERB} by another plan", wait, lambda _, operation: _abandoned(operation, changed))
        raise changed


def _abandoned(operation: Operation, changed: PlanChanged) -> OperationRecord:
    operation.abandon(changed)
    return operation.record


def _live_from(history: str, given: str | None) -> str:
    """Return the position at which the live source begins. Raises InvalidSpec."""
    if history == SOURCE:
        if given is not None:
            raise InvalidSpec("--live-from", given, f"nothing where the history is the {SOURCE}: it goes on after that")
        return SOURCE
    if given is None or given in (BEGINNING, NOW):
        return given or BEGINNING
    try:
        json.loads(given)
    except ValueError as error:
        raise InvalidSpec("--live-from", given, f"{BEGINNING}, {NOW}, or JSON such as {_POSITION}") from error
    return given


def _moment(text: str | None) -> int | None:
    """Parse a moment to epoch ms, UTC if it has no offset. Raises InvalidSpec."""
    if text is None:
        return None
    found = moment_of(text, "--until")
    if not 0 < found <= epoch_ms():
        raise InvalidSpec("--until", text, "a moment since 1970 that has passed: a watermark never passes the clock")
    return found


def _planned(taking: Taking, where: StreamHome) -> SeedPlan:
    """Make the plan with its current figures. Nothing is kept."""
    from sessionizer.spark.history.beginning import rows_leaving  # noqa: PLC0415  fast --help

    with tempfile.TemporaryDirectory(prefix="seed-plan-") as scratch:
        figures = taking.figures(Path(scratch))
    leaving = rows_leaving(taking, where) if taking.decision.leaves is not None else {}
    return SeedPlan(taking.decision, figures, leaving)
