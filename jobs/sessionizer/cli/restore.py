"""``sessionizer restore``: back to a savepoint. Shows the plan first, and does what is approved by its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.operations import (
    Approve,
    By,
    Wait,
    approver,
    begun_already,
    is_approved,
    show,
    under_way,
)
from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, spark_master, stream_home
from sessionizer.cli.savepoint_words import Folder, savepoints_folder
from sessionizer.cli.terminal import named_failures, say, started_spark
from sessionizer.control.operation import new_operation
from sessionizer.control.records.plan_record import PlanRecord, keep_plan_of
from sessionizer.errors import EventsGone, InvalidSpec, UnknownSavepoint
from sessionizer.home.clock import epoch_ms, moment_of
from sessionizer.home.data_root import is_local
from sessionizer.state.restores.restore_plan import VERB
from sessionizer.state.savepoints.beginning import reading
from sessionizer.state.savepoints.shelf import complete_savepoint, savepoints_in

if TYPE_CHECKING:
    from sessionizer.home.data_root import DataPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.restores.restore_plan import RestorePlan


def restore(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    savepoint: Annotated[str | None, typer.Argument(metavar="[SAVEPOINT]", help="Id of the savepoint.")] = None,
    *,
    time: Annotated[
        str | None, typer.Option(help="Instead of an id: the newest savepoint not after this moment, ISO 8601.")
    ] = None,
    approve: Approve = None,
    wait: Wait = 300.0,
    by: By = None,
    keep_plan: Annotated[
        str | None,
        typer.Option(metavar="REQUEST", help="Keep the plan under this name, for whoever approves it elsewhere."),
    ] = None,
    folder: Folder = None,
    as_json: AsJson = False,
    home: Home = None,
    data: Data = None,
    master: Master = None,
) -> None:
    """Show what going back to a savepoint would do; with --approve DIGEST, do it. Typed again it goes on."""
    where = stream_home(home, stream, data)
    shelf = savepoints_folder(where, folder)
    chosen = _chosen(shelf, savepoint, time)
    kept, manifest = complete_savepoint(shelf, chosen, epoch_ms())
    pending = begun_already(where, VERB, chosen)
    from sessionizer.spark.state.restore_planning import plan_restore  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.restoring import Restoring  # noqa: PLC0415

    say(f"starting Spark for a restore of {stream}")
    spark = started_spark(f"sessionizer restore {stream}", spark_master(master), local_data=is_local(where.data))
    with reading(kept, VERB), named_failures(stream):
        plan = plan_restore(spark, where, kept, manifest)
        digest = pending.digest if pending else plan.decision.digest
        show(plan, digest if plan.is_possible and approve != digest else None, as_json=as_json)
        if keep_plan is not None:
            _keep(where, plan, digest, keep_plan)
        if not is_approved(stream, approve, digest):
            return
        # one that was begun has taken rows, maybe, and goes to its end
        if pending is None and not plan.is_possible:
            raise EventsGone(stream, plan.replay.missing)
        leaves = plan.decision.leaves, plan.newest_batch
        record = pending or new_operation(where, VERB, digest, approver(by), leaves, savepoint=chosen)
        with under_way(where, record, f"{VERB} to {chosen}", wait) as (lease, operation):
            record = Restoring(spark, where, kept, manifest, lease, operation, say).run()
    spark.stop()
    typer.echo(f"stream {stream} is back at savepoint {chosen}, in lineage {record.lineage_to} ({record.seconds} s)")


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


def _keep(where: StreamHome, plan: RestorePlan, digest: str, request: str) -> None:
    """The first plan of a request stays: what was shown to somebody is not replaced behind their back."""
    kept = keep_plan_of(
        where,
        PlanRecord(
            request=request,
            verb=VERB,
            stream=plan.decision.stream,
            savepoint=plan.decision.savepoint,
            digest=digest,
            possible=plan.is_possible,
            text="\n".join(plan.lines()),
            made_at=epoch_ms(),
        ),
    )
    same = kept.digest == digest
    say(f"kept as the plan of {request}" if same else f"the plan of {request} is {kept.digest} and stays so")
