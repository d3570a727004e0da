"""``sessionizer seed``: begin a stream with a history. Shows the plan first, then does the approved plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from sessionizer.checkpoint.batch_logs import read_begun_batch
from sessionizer.cli.places import stream_home, stream_spec
from sessionizer.cli.state_commands.operations import (
    TypedCommand,
    find_begun,
    is_approved,
    is_done_already,
    note_edited_file,
    working_spark,
)
from sessionizer.cli.state_commands.typed import command_line
from sessionizer.cli.terminal import say
from sessionizer.control.records.operation_record import OperationStage
from sessionizer.errors import InvalidSpec, StreamBegun
from sessionizer.lineage.active import active_lineage
from sessionizer.state.commands.seed import Seed
from sessionizer.state.seeds.seed_plan import SeedDecision
from sessionizer.stream_spec.decisions import spec_fingerprint

if TYPE_CHECKING:
    from sessionizer.cli.state_commands.shared_options import Shared
    from sessionizer.control.execution import Step
    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.commands.command import Plan


def run(command: Seed, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    stream, where = shared.stream, stream_home(shared.home, shared.stream, shared.data)
    in_file = stream_spec(shared.streams, stream)
    if is_done_already(where, command.name, shared.approve):
        return
    pending = find_begun(where, command.name)
    leaves = _leaves(where, pending, start_over=command.start_over)
    from sessionizer.spark.failures.query_failure import retry_late_worker  # noqa: PLC0415  fast --help
    from sessionizer.spark.history.history_reader import HistoryReader, spec_of_history  # noqa: PLC0415
    from sessionizer.spark.history.history_rows import find_history  # noqa: PLC0415
    from sessionizer.spark.history.seed_runner import SeedRunner  # noqa: PLC0415  fast --help
    from sessionizer.spark.sinks.examine import examine  # noqa: PLC0415

    spec = spec_of_history(where.seeds / pending.id, in_file) if pending else in_file
    if not spec.rules.clock.has_watermark:
        raise InvalidSpec("rules.time_mode", spec.rules.clock.value, "event_time: a history does not say when it came")
    past, source = find_history(command.history, spec.source, command.table, command.user, command.query)
    asked = (command.until_ms(), command.live(), command.backfill, leaves)
    decision = SeedDecision(stream, spec_fingerprint(spec), past, *asked, command.terms)
    typed = TypedCommand(command=command, shared=shared, where=where, pending=pending)
    if pending is not None and not pending.has_done(OperationStage.TAKEN) and pending.digest != decision.digest:
        typed.carry_out(None, _OtherPlan(command.plan(decision)), f"{command.name} by another plan")
    approved = is_approved(where, shared.approve, pending or decision)
    with working_spark(command.name, where, shared.master) as spark:
        reader = HistoryReader(spark, spec, examine(spark, spec, where.platform), source, decision, where.platform)
        runner = SeedRunner(spark=spark, home=where, say=say, command=command, reader=reader)
        if not approved:
            typed.take_up(retry_late_worker(runner.look, say))
            return
        where.prepare()
        newest = -1 if leaves is None else read_begun_batch(where.checkpoint(leaves))
        plan = command.plan(decision, newest_batch=-1 if newest is None else newest)
        record = typed.carry_out(plan, runner, f"{command.name} from {past}")
    typer.echo(f"stream {stream} begins in lineage {record.lineage_to} ({record.seconds} s)")
    note_edited_file(where, in_file)


@dataclass(frozen=True)
class _OtherPlan:
    """Runner of a ``plan`` that is not the approved one. The executor abandons the operation before Spark starts."""

    plan: Plan[SeedDecision]

    def find_activated(self, _: OperationRecord) -> None:
        """No try has read the history."""

    def plan_again(self, _: OperationRecord) -> Plan[SeedDecision]:
        """Return the other plan."""
        return self.plan

    def last_steps(self) -> tuple[Step, ...]:
        """Return no step."""
        return ()

    def run(self, step: Step, _: Operation) -> None:
        """Run no step."""
        raise NotImplementedError(step)

    def clean_up(self, _: Operation) -> None:
        """Leave everything, because nothing was read."""


def _leaves(where: StreamHome, pending: OperationRecord | None, *, start_over: bool) -> str | None:
    """Return the lineage that is left. Raises StreamBegun if the stream has one and ``start_over`` is not set."""
    if pending is not None:
        return pending.lineage_from or None
    active = active_lineage(where)
    if active is not None and not start_over:
        raise StreamBegun(where.name, active)
    return active


seed = command_line(Seed, run)
