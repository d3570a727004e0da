"""``sessionizer restore``: go back to a savepoint. Shows the plan first, then does the plan approved by its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sessionizer.cli.places import stream_home
from sessionizer.cli.savepoint_words import savepoints_folder
from sessionizer.cli.state_commands.operations import TypedCommand, find_begun, is_done_already, working_spark
from sessionizer.cli.state_commands.typed import command_line
from sessionizer.cli.terminal import say
from sessionizer.errors import InvalidSpec, UnknownSavepoint
from sessionizer.home.clock import epoch_ms, moment_of
from sessionizer.lineage.active import require_lineage
from sessionizer.lineage.excluded_ranges import read_approved
from sessionizer.state.commands.restore import Restore
from sessionizer.state.savepoints.listing import complete_savepoint, list_savepoints
from sessionizer.state.savepoints.marker_files import keep_from_removal

if TYPE_CHECKING:
    from sessionizer.cli.state_commands.shared_options import Shared
    from sessionizer.home.roots import DataPath


def run(command: Restore, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    stream, where = shared.stream, stream_home(shared.home, shared.stream, shared.data)
    if is_done_already(where, command.name, shared.approve):
        return
    savepoints = savepoints_folder(where, command.folder)
    chosen = _chosen(savepoints, command.savepoint, command.time)
    terms, pending = command.terms, find_begun(where, command.name, chosen)
    typed = TypedCommand(command=command, shared=shared, where=where, pending=pending, savepoint=chosen)
    if typed.finish_activated():
        return
    kept, manifest = complete_savepoint(savepoints, chosen, epoch_ms())
    require_lineage(where)
    from sessionizer.spark.failures.query_failure import retry_late_worker  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.commands.restore import RestoreRunner  # noqa: PLC0415
    from sessionizer.spark.state.restores.restore_planning import plan_restore  # noqa: PLC0415

    with keep_from_removal(kept, command.name), working_spark(command.name, where, shared.master) as spark:
        begun = read_approved(where, pending.id) if pending else None
        found = retry_late_worker(
            lambda: plan_restore(spark, where, kept, manifest, command.exclude, begun, canary=terms), say
        )
        plan = command.plan(found)
        if not typed.take_up(plan):
            return
        runner = RestoreRunner(
            spark=spark,
            home=where,
            say=say,
            command=command,
            savepoint=kept,
            manifest=manifest,
            plan=plan,
        )
        record = typed.carry_out(plan, runner, f"{command.name} to {chosen}")
    typer.echo(f"stream {stream} is back at savepoint {chosen}, in lineage {record.lineage_to} ({record.seconds} s)")


def _chosen(savepoints: DataPath, savepoint: str | None, time: str | None) -> str:
    if savepoint is None and time is None:
        raise InvalidSpec(
            "SAVEPOINT",
            None,
            "Give SAVEPOINT, an id that `sessionizer savepoint list …` shows, or --time with a moment",
        )
    if savepoint is not None and time is not None:
        raise InvalidSpec("--time", time, "Omit it, because SAVEPOINT is given")
    if savepoint is not None:
        return savepoint
    until = moment_of(str(time), "--time")
    found = [each for each in list_savepoints(savepoints, epoch_ms()) if each.is_complete]
    fitting = [each for each in found if each.manifest is not None and each.manifest.batch_at <= until]
    if not fitting:
        raise UnknownSavepoint("", (each.id for each in found), until=time)
    return max(fitting, key=lambda each: each.manifest.batch_at if each.manifest else 0).id


restore = command_line(Restore, run)
