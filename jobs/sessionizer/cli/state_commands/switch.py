"""``sessionizer switch``: continue the open sessions with another source.

Shows the plan first, then does the approved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sessionizer.cli.places import stream_home, stream_spec
from sessionizer.cli.state_commands.operations import (
    TypedCommand,
    find_begun,
    is_approved,
    is_done_already,
    working_spark,
)
from sessionizer.cli.state_commands.typed import command_line
from sessionizer.cli.terminal import say
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.state.commands.switch import Switch
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.lineages.switch_plan import decide_switch, require_switch
from sessionizer.stream_spec.decisions import changes_between, decisions_of, list_decisions, spec_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from sessionizer.cli.state_commands.shared_options import Shared
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.spark.state.commands.accept_loss import LossRunner
    from sessionizer.spark.state.commands.switch import SwitchRunner
    from sessionizer.state.commands.command import Plan
    from sessionizer.state.lineages.loss_plan import LossPlan
    from sessionizer.state.lineages.switch_plan import Start, SwitchPlan
    from sessionizer.stream_spec.document.stream import StreamSpec


def run(command: Switch, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    stream, where = shared.stream, stream_home(shared.home, shared.stream, shared.data)
    spec, start = stream_spec(shared.streams, stream), command.start()
    if is_done_already(where, command.name, shared.approve):
        return
    pending, terms = find_begun(where, command.name), command.terms
    typed = TypedCommand(command=command, shared=shared, where=where, pending=pending)
    if typed.finish_activated():
        return
    if pending is None and start is not None:  # refused before Spark starts
        committed = read_committed_batch(where)
        require_switch(changes_between(list_decisions(committed.spec), decisions_of(spec)))
        decision = decide_switch(stream, committed.lineage, spec_fingerprint(spec), start, terms)
        is_approved(where, shared.approve, decision)
    from sessionizer.spark.failures.query_failure import retry_late_worker  # noqa: PLC0415  fast --help

    with working_spark(command.name, where, shared.master) as spark:
        runner = _runner(spark, where, spec, command, start)
        look: Callable[[], Plan[SwitchPlan] | Plan[LossPlan]] = runner.look
        plan = retry_late_worker(look, say)
        if not typed.take_up(plan):
            return
        record = typed.carry_out(plan, runner, f"{command.name} of the source")
    with_what = "without the events that are gone" if command.accept_loss else "with its new source"
    typer.echo(f"stream {stream} continues {with_what} in lineage {record.lineage_to} ({record.seconds} s)")


def _runner(
    spark: SparkSession, where: StreamHome, spec: StreamSpec, command: Switch, start: Start | None
) -> SwitchRunner | LossRunner:
    from sessionizer.spark.state.commands.accept_loss import LossRunner  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.commands.switch import SwitchRunner  # noqa: PLC0415  fast --help

    if start is None:
        return LossRunner(spark=spark, home=where, say=say, command=command, spec=spec_in_force(where, spec))
    return SwitchRunner(spark=spark, home=where, say=say, command=command, spec=spec, start=start)


switch = command_line(Switch, run)
