"""``sessionizer restore``: go back to a savepoint. Shows the plan first, then does the plan approved by its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, stream_home
from sessionizer.cli.savepoint_words import Folder, savepoints_folder
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
    taken_up,
    terms_of,
    trial_options,
    working_spark,
)
from sessionizer.cli.terminal import say
from sessionizer.control.operation import new_operation
from sessionizer.errors import EventsGone, InvalidSpec, NothingToSave, UnknownSavepoint
from sessionizer.home.clock import epoch_ms, moment_of
from sessionizer.home.data_root import data_root
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.left_out import left_out_in
from sessionizer.lineage.trial.judging import BATCHES
from sessionizer.state.downtime import downtime_of
from sessionizer.state.restores.leave_out import FLAG
from sessionizer.state.restores.restore_plan import VERB
from sessionizer.state.restores.table_move import FLAG as MOVE_TO
from sessionizer.state.restores.table_move import move_begun
from sessionizer.state.savepoints.beginning import reading
from sessionizer.state.savepoints.shelf import complete_savepoint, savepoints_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.data_root import DataPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.trial.judging import Terms
    from sessionizer.state.restores.restore_plan import Replay, RestorePlan
    from sessionizer.state.restores.table_move import TableMove
    from sessionizer.state.savepoints.manifest import Manifest


def restore(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    savepoint: Annotated[str | None, typer.Argument(metavar="[SAVEPOINT]", help="Id of the savepoint.")] = None,
    *,
    time: Annotated[
        str | None, typer.Option(help="Instead of an id: the newest savepoint not after this moment, ISO 8601.")
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RANGE",
            help="A range of the source whose rows go to quarantine: a file or a pattern of files, modified:FROM/TO, "
            "TOPIC:PARTITION:FROM-TO, TOPIC:FROM/TO, version:FROM-TO; TO is not in it. May be repeated.",
        ),
    ] = None,
    move_to: Annotated[
        str | None,
        typer.Option(metavar="ROOT", help="Go on with the data in another data root, to which the tables are copied."),
    ] = None,
    trial: TrialBatches = BATCHES,
    approve: Approve = None,
    wait: Wait = 300.0,
    by: By = None,
    keep_plan: KeepPlan = None,
    folder: Folder = None,
    as_json: AsJson = False,
    home: Home = None,
    data: Data = None,
    master: Master = None,
) -> None:
    """Show what going back to a savepoint would do. With --approve DIGEST, do it. Typed again it continues."""
    if move_to is not None and folder is None:
        raise InvalidSpec("--in", folder, f"a folder or URI: with {MOVE_TO} a savepoint in neither of the data roots")
    where = stream_home(home, stream, data)
    if carried_out(where, VERB, approve):
        return
    shelf = savepoints_folder(where, folder)
    chosen = _chosen(shelf, savepoint, time)
    kept, manifest = complete_savepoint(shelf, chosen, epoch_ms())
    if active_lineage(where) is None:
        raise NothingToSave(stream, "it never ran")
    terms, pending = terms_of(trial, like_before=False), begun_already(where, VERB, chosen)
    from sessionizer.spark.failures.passing import tried_again  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.restores.restore_planning import plan_restore, replay_now  # noqa: PLC0415
    from sessionizer.spark.state.restores.restoring import Restoring  # noqa: PLC0415

    move = _move(where, manifest, move_to, pending)
    goes_on = move.taken if move else where
    with reading(kept, VERB), working_spark(VERB, goes_on, master) as spark:
        begun = left_out_in(where.control_files.left_out(pending.id)) if pending else None
        plan = tried_again(
            lambda: plan_restore(spark, where, kept, manifest, leave_out or (), begun, trial=terms, move=move), say
        )
        offer = Offer(
            verb=VERB,
            plan=plan,
            digest=pending.digest if pending else plan.decision.digest,
            possible=plan.is_possible,
            savepoint=chosen,
            options=_options(folder, leave_out or (), move_to, terms),
            trial=terms,
            down=downtime_of(where, VERB),
        )
        if not taken_up(where, offer, approve, keep_plan, as_json=as_json):
            return
        # A begun restore may have deleted rows, and must go to its end.
        record = pending or _new_record(where, plan, offer, approver(by))
        out = plan.decision.left_out
        record = carry_out(
            where,
            record,
            f"{VERB} to {chosen}",
            wait,
            lambda lease, operation: Restoring(
                spark, goes_on, kept, manifest, lease, operation, say, terms, out, move
            ).run(),
            check=lambda: _require_events(where, replay_now(spark, where, kept, manifest, out)),
        )
    typer.echo(f"stream {stream} is back at savepoint {chosen}, in lineage {record.lineage_to} ({record.seconds} s)")


def _options(folder: str | None, leave_out: Sequence[str], move_to: str | None, terms: Terms | None) -> list[str]:
    """Return the typed options that the plan depends on, for a command elsewhere that continues it."""
    ranges = [word for each in leave_out for word in (FLAG, each)]
    return [*ranges, *given({"--in": folder, MOVE_TO: move_to, **trial_options(terms)})]


def _new_record(where: StreamHome, plan: RestorePlan, offer: Offer, by: str) -> OperationRecord:
    """Record a restore that is approved now. Raises EventsGone if the source lacks events that must be read again."""
    _require_events(where, plan.replay)
    leaves = plan.decision.leaves, plan.newest_batch
    return new_operation(where, VERB, offer.digest, by, leaves, savepoint=offer.savepoint, options=offer.options)


def _require_events(where: StreamHome, replay: Replay) -> None:
    """Raise EventsGone if the source lacks events that must be read again."""
    if replay.missing:
        raise EventsGone(where.name, replay.missing)


def _move(
    where: StreamHome, manifest: Manifest, wanted: str | None, pending: OperationRecord | None
) -> TableMove | None:
    from sessionizer.spark.state.restores.restore_planning import move_of  # noqa: PLC0415  fast --help

    root = move_begun(pending) if pending else wanted
    if root is None:
        return None
    return move_of(where, manifest, data_root(root, where.platform, MOVE_TO), begun=pending is not None)


def _chosen(shelf: DataPath, savepoint: str | None, time: str | None) -> str:
    if (savepoint is None) == (time is None):
        raise InvalidSpec("--time", time, "a moment if no SAVEPOINT is named, and nothing else")
    if savepoint is not None:
        return savepoint
    until = moment_of(str(time), "--time")
    found = [each for each in savepoints_in(shelf, epoch_ms()) if each.is_complete]
    fitting = [each for each in found if each.manifest is not None and each.manifest.batch_at <= until]
    if not fitting:
        raise UnknownSavepoint(f"one not after {time}", (each.id for each in found))
    return max(fitting, key=lambda each: each.manifest.batch_at if each.manifest else 0).id
