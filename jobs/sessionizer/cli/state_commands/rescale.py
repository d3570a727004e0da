"""``sessionizer rescale``: divide the state into other key groups.

Shows the plan first, then does the approved plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sessionizer.cli.places import stream_home, stream_spec
from sessionizer.cli.state_commands.operations import TypedCommand, find_begun, is_done_already, working_spark
from sessionizer.cli.state_commands.typed import command_line
from sessionizer.cli.terminal import say
from sessionizer.counts import count_text
from sessionizer.state.commands.rescale import Rescale
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.stream_spec.decisions import KEY_GROUPS

if TYPE_CHECKING:
    from sessionizer.cli.state_commands.shared_options import Shared


def run(command: Rescale, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    where, spec = stream_home(shared.home, shared.stream, shared.data), stream_spec(shared.streams, shared.stream)
    in_file = spec.key_groups
    if is_done_already(where, command.name, shared.approve):
        return
    typed = TypedCommand(command=command, shared=shared, where=where, pending=find_begun(where, command.name))
    if typed.finish_activated():
        return
    plan = command.plan(shared.stream, read_committed_batch(where), in_file)
    if not typed.take_up(plan) or not (plan.is_needed or typed.pending):
        return
    from sessionizer.spark.state.commands.rescale import RescaleRunner  # noqa: PLC0415  fast --help

    now = plan.decision.now
    with working_spark(command.name, where, shared.master) as spark:
        runner = RescaleRunner(spark=spark, home=where, say=say, command=command, key_groups=in_file)
        record = typed.carry_out(plan, runner, f"{command.name} to {now}")
    typer.echo(f"stream {shared.stream} continues in lineage {record.lineage_to}: {now} ({record.seconds} s)")
    if now.key_groups != in_file:
        says = (
            f"key_groups: {in_file}"
            if KEY_GROUPS in spec.model_fields_set
            else f"nothing, so {count_text(in_file, 'key group')}"
        )
        say(f"note: its file says {says}. The rescale holds until that number is edited")


rescale = command_line(Rescale, run)
