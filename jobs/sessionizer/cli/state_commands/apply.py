"""``sessionizer apply`` and ``upgrade``: continue a stream by its file, ``upgrade`` by the installed programs as well.

Each shows the plan first, then does the approved plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sessionizer.cli.places import stream_home, stream_spec
from sessionizer.cli.savepoint_words import savepoints_folder
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
from sessionizer.deployment.upgrade_planning import plan_upgrade
from sessionizer.launch.installation import require_driver_loads
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.kept_spec import keep_rescale
from sessionizer.state.commands.apply import Apply
from sessionizer.state.commands.steps import Prove
from sessionizer.state.commands.upgrade import Upgrade
from sessionizer.state.lineages.committed_batch import read_committed_batch

if TYPE_CHECKING:
    from sessionizer.cli.state_commands.shared_options import Shared
    from sessionizer.deployment.upgrade_plan import UpgradePlan
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.commands.command import Plan
    from sessionizer.stream_spec.document.stream import StreamSpec

NOT_LOOKED_AT = "columns and SQL are not checked: Spark does that before the stream is stopped, or now with --deep"


def run(command: Apply, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    stream, where = shared.stream, stream_home(shared.home, shared.stream, shared.data)
    spec = keep_rescale(where, active_lineage(where), stream_spec(shared.streams, stream))
    pending = find_begun(where, command.name)
    typed = TypedCommand(command=command, shared=shared, where=where, pending=pending)
    if pending is None and _is_settled_without_spark(command, typed, where, spec):
        return
    if command.takes_programs and pending is None:
        require_driver_loads()
    from sessionizer.spark.failures.query_failure import retry_late_worker  # noqa: PLC0415  fast --help
    from sessionizer.spark.proof.prove import prove_and_keep  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.commands.apply import ApplyRunner  # noqa: PLC0415  fast --help

    savepoints = savepoints_folder(where, command.folder)
    with working_spark(command.name, where, shared.master) as spark:
        runner = ApplyRunner(spark=spark, home=where, say=say, command=command, spec=spec, savepoints=savepoints)
        plan = None if pending else retry_late_worker(runner.look, say)
        if not (typed.goes_on(pending) if pending else plan and typed.take_up(plan) and plan.is_needed):
            if plan is not None:
                _end_if_refused(plan, shared)
            return
        if plan is not None and Prove() in plan.steps:
            prove_and_keep(spark, where, spec, say=say).proof.require(command.accept)
        record = typed.carry_out(plan, runner, f"{command.name} of the stream")
    typer.echo(f"stream {stream} continues with the approved file in lineage {record.lineage_to} ({record.seconds} s)")
    note_edited_file(where, spec)


def _is_settled_without_spark(command: Apply, typed: TypedCommand, where: StreamHome, spec: StreamSpec) -> bool:
    """Show the plan if that is all there is to do, and return whether it was."""
    shared = typed.shared
    committed = read_committed_batch(where, to_upgrade=command.takes_programs)
    plan = command.plan(plan_upgrade(where, (committed.lineage, committed.batch_id), spec, command.request))
    if (not plan.is_needed or plan.digest != shared.approve) and is_done_already(where, command.name, shared.approve):
        note_edited_file(where, spec)
        return True
    is_shown_only = isinstance(command, Upgrade) and not (command.deep or shared.approve)
    waits_for_deep = isinstance(command, Upgrade) and command.deep and plan.is_needed and not plan.decision.refused
    if waits_for_deep or (plan.is_possible and not is_shown_only):
        is_approved(where, shared.approve, plan)
        return False
    if typed.take_up(plan):
        plan.require_possible()
    _end_if_refused(plan, shared)
    if plan.is_possible and not shared.as_json:
        typer.echo(f"  {NOT_LOOKED_AT}")
    return True


def _end_if_refused(plan: Plan[UpgradePlan], shared: Shared) -> None:
    """End with the code of the refusal, unless the plan is kept for a process elsewhere, which reads it there."""
    if plan.decision.refused and plan.refusal is not None and shared.keep_plan is None:
        raise typer.Exit(plan.refusal.exit_code)


apply = command_line(Apply, run)
upgrade = command_line(Upgrade, run)
