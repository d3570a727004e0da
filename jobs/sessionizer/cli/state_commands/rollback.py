"""``sessionizer rollback``: go back to the lineage before. Shows the plan first, then does the approved plan.

This module also has ``sessionizer promote``, which keeps a lineage.
"""

from __future__ import annotations

import typer

from sessionizer.cli.places import Home, Stream, home_folder, require_known_stream, stream_home
from sessionizer.cli.state_commands.operations import (
    TypedCommand,
    approver,
    find_begun,
    is_approved,
    is_done_already,
    working_spark,
)
from sessionizer.cli.state_commands.shared_options import By, Shared  # noqa: TC001  read when it runs
from sessionizer.cli.state_commands.typed import command_line
from sessionizer.cli.terminal import say
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import promote_lineage
from sessionizer.state.commands.rollback import Rollback
from sessionizer.state.lineages.origin import rollback_of
from sessionizer.state.restores.rollback_plan import decide_rollback


def run(command: Rollback, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    stream, where = shared.stream, stream_home(shared.home, shared.stream, shared.data)
    require_known_stream(where, shared.streams)
    if is_done_already(where, command.name, shared.approve):
        return
    pending = find_begun(where, command.name)
    typed = TypedCommand(command=command, shared=shared, where=where, pending=pending)
    if typed.finish_activated():
        return
    if pending is None:  # refused before Spark starts
        back, leaves = rollback_of(where)
        is_approved(where, shared.approve, decide_rollback(stream, leaves, back.lineage))
    from sessionizer.spark.failures.query_failure import retry_late_worker  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.commands.rollback import RollbackRunner  # noqa: PLC0415

    with working_spark(command.name, where, shared.master) as spark:
        runner = RollbackRunner(spark=spark, home=where, say=say, command=command)
        plan = None if pending else retry_late_worker(runner.look, say)
        if not (typed.goes_on(pending) if pending else plan and typed.take_up(plan)):
            return
        record = typed.carry_out(plan, runner, command.name)
    typer.echo(f"stream {stream} is back in lineage {record.lineage_to} ({record.seconds} s)")


rollback = command_line(Rollback, run)


def promote(stream: Stream, *, by: By = None, home: Home = None) -> None:
    """Keep the stream's lineage, whatever its canary found or would find."""
    where = StreamHome.of(home_folder(home), stream)
    require_known_stream(where)
    typer.echo(promote_lineage(where, approver(by)))
