"""``sessionizer seed``: begin a stream with a history. Shows the plan first, then does the approved plan."""

from __future__ import annotations

import tempfile
from pathlib import Path
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
from sessionizer.control.records.operation_record import Reached
from sessionizer.core.definition.rules import TimeMode
from sessionizer.errors import InvalidSpec, PlanChanged, StreamBegun
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.checkpoint import begun_batch
from sessionizer.state.commands.seed import Seed
from sessionizer.state.downtime import downtime_of
from sessionizer.state.seeds.seed_plan import VERB, Decision, SeedPlan
from sessionizer.stream_spec.decisions import spec_fingerprint

if TYPE_CHECKING:
    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.spark.history.taking import Taking


def run(command: Seed, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    stream, approve = shared.stream, shared.approve
    where, spec = stream_home(shared.home, stream, shared.data), stream_spec(shared.streams, stream)
    if carried_out(where, VERB, approve):
        return
    if spec.rules.time_mode is not TimeMode.EVENT_TIME:
        raise InvalidSpec(
            "rules.time_mode", spec.rules.time_mode.value, "event_time: a history does not say when it came"
        )
    terms, pending = command.terms, begun_already(where, VERB)
    leaves = _leaves(where, pending, start_over=command.start_over)
    from sessionizer.spark.failures.passing import tried_again  # noqa: PLC0415  fast --help
    from sessionizer.spark.history.beginning import Beginning  # noqa: PLC0415  fast --help
    from sessionizer.spark.history.past_rows import past_at  # noqa: PLC0415
    from sessionizer.spark.history.taking import Taking  # noqa: PLC0415
    from sessionizer.spark.sinks.examine import examine  # noqa: PLC0415

    past, source = past_at(command.history, spec.source, command.table, command.user, command.query)
    asked = (command.until_ms(), command.live(), command.backfill, leaves)
    decision = Decision(stream, spec_fingerprint(spec), past, *asked, terms)
    _require_unchanged(where, pending, decision, shared.wait)
    digest = pending.digest if pending else decision.digest
    approved = is_approved(stream, approve, digest)
    options = command.recorded()
    with working_spark(VERB, where, shared.master) as spark:
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
            taken_up(where, offer, approve, shared.keep_plan, as_json=shared.as_json)
            return
        where.prepare()
        newest = -1 if leaves is None else begun_batch(where.checkpoint(leaves))
        left = (leaves or "", -1 if newest is None else newest)
        record = pending or new_operation(where, VERB, digest, approver(shared.by), left, options=options)
        record = carry_out(
            where,
            record,
            f"{VERB} from {past}",
            shared.wait,
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


def _planned(taking: Taking, where: StreamHome) -> SeedPlan:
    """Make the plan with its current figures. Nothing is kept."""
    from sessionizer.spark.history.beginning import rows_leaving  # noqa: PLC0415  fast --help

    with tempfile.TemporaryDirectory(prefix="seed-plan-") as scratch:
        figures = taking.figures(Path(scratch))
    leaving = rows_leaving(taking, where) if taking.decision.leaves is not None else {}
    return SeedPlan(taking.decision, figures, leaving)


seed = command_line(Seed, run)
