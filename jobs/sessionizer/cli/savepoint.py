"""``sessionizer savepoint create``, ``list`` and ``show``: the open events of a stream, kept as tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import (
    AsJson,
    Data,
    Home,
    Master,
    Stream,
    Streams,
    require_known_stream,
    spark_master,
    stream_home,
)
from sessionizer.cli.savepoint_care import diff, export, prune, verify
from sessionizer.cli.savepoint_words import (
    Folder,
    Id,
    contents_line,
    savepoint_facts,
    savepoint_json,
    savepoint_line,
    savepoint_list,
    savepoints_folder,
)
from sessionizer.cli.stop import stop
from sessionizer.cli.terminal import say, start_spark, translate_failures
from sessionizer.control.lease import read_lease
from sessionizer.control.openlineage.reporter import RunReporter, command_run
from sessionizer.control.records.operation_record import require_no_operation
from sessionizer.control.status.read_status import read_driver
from sessionizer.errors import StreamRunsAgain
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import check_identifier, mint_id
from sessionizer.home.roots import uri_of
from sessionizer.launch.scratch import give_way
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.listing import list_savepoints, savepoint_of
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.savepoints.manifest import Manifest

savepoint = typer.Typer(no_args_is_help=True, help="Make, show, check and remove savepoints of the open state.")


@savepoint.command()
def create(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    id: Annotated[  # noqa: A002  the option's name
        str | None, typer.Option(help="Its id. Default: a new one. A complete savepoint is not made again.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="The batch. Default: the newest committed one.")] = None,
    stopping: Annotated[
        bool, typer.Option("--stop", help="Stop the stream first, so that it reads nothing after the savepoint.")
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the stop.", min=1)] = 60.0,
    native: Annotated[
        bool, typer.Option("--native", help="Copy the checkpoint's files: fast, for this line of Spark only.")
    ] = False,
    hurry: Annotated[
        bool, typer.Option("--hurry", help="Use the same priority as the stream, which slows it down.")
    ] = False,
    why: Annotated[str, typer.Option(help="The reason, which is kept.")] = "sessionizer savepoint create",
    folder: Folder = None,
    as_json: AsJson = False,
    streams: Streams = None,
    home: Home = None,
    data: Data = None,
    master: Master = None,
) -> None:
    """Save the open events after a committed batch. Without --stop the stream is not touched, and may run on."""
    where = stream_home(home, stream, data)
    require_known_stream(where, streams)
    name = check_identifier("savepoint", id) if id else mint_id(epoch_ms())  # a failed try is repeated under it
    require_no_operation(where)
    if stopping:
        stop(stream, wait=wait, why=why, streams=streams, home=home)
    check = _check_of_stop(where) if stopping else lambda: None
    live = read_driver(where, epoch_ms()).state.is_live
    asked = SavepointRequest(savepoints_folder(where, folder), why, name, live=live)
    lineage = read_committed_batch(where, batch).lineage  # reports an error before Spark starts
    if live and not hurry:
        give_way()
    begun_at = epoch_ms()
    with RunReporter(lambda: command_run(where, "savepoint", name, begun_at, lineage), say):
        if native:
            made = make_native_savepoint(where, read_committed_batch(where, batch), asked, _print_step)
        else:
            made = _canonical(where, batch, asked, spark_master(master), check)
        check()  # again: the stream must not have read more than was saved
    _show_made(made, asked, as_json=as_json)


def _show_made(made: Manifest, asked: SavepointRequest, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(made.to_json(), indent=1))
        return
    typer.echo(f"savepoint {made.id} of {made.stream} after batch {made.batch_id}: {contents_line(made)}")
    typer.echo(uri_of(asked.folder / made.id))


def _check_of_stop(where: StreamHome) -> Callable[[], None]:
    """Return a check that raises StreamRunsAgain if a driver takes the lease from now on."""
    stopped_at = read_lease(where)

    def check() -> None:
        now = read_lease(where)
        if now is not None and now.token > (stopped_at.token if stopped_at else 0):
            raise StreamRunsAgain(where.name, now.uid or "of an unknown name")

    return check


def _canonical(
    where: StreamHome, batch: int | None, asked: SavepointRequest, master: str | None, check: Callable[[], None]
) -> Manifest:
    from sessionizer.spark.failures.query_failure import retry_late_worker  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.savepoints.savepoint import make_savepoint  # noqa: PLC0415  fast --help

    say(f"starting Spark for a savepoint of {where.name}")
    spark = start_spark(f"sessionizer savepoint {where.name}", master)
    with translate_failures(where.name):
        check()
        committed = read_committed_batch(where, batch)
        say(f"saving lineage {committed.lineage} after batch {committed.batch_id}")
        made = retry_late_worker(lambda: make_savepoint(spark, where, committed, asked, _print_step), say)
    spark.stop()
    return made


def _print_step(step: str) -> None:
    say(f"done: {step}")


@savepoint.command("list")
def list_(stream: Stream, *, folder: Folder = None, as_json: AsJson = False, home: Home = None) -> None:
    """List the savepoints of the stream, the oldest first, also those that were not completed."""
    now = epoch_ms()
    found = list_savepoints(savepoints_folder(stream_home(home, stream), folder), now)
    if as_json:
        typer.echo(json.dumps([savepoint_json(each) for each in found], indent=1))
    elif not found:
        typer.echo(f"stream {stream} has no savepoints")
    else:
        typer.echo(savepoint_list(found, now))


@savepoint.command()
def show(stream: Stream, id: Id, *, folder: Folder = None, as_json: AsJson = False, home: Home = None) -> None:  # noqa: A002  the argument's name
    """Show the manifest of a savepoint, and the places of its tables."""
    now = epoch_ms()
    found = savepoint_of(savepoints_folder(stream_home(home, stream), folder), id, now)
    if as_json:
        typer.echo(json.dumps(savepoint_json(found), indent=1))
        return
    typer.echo(savepoint_line(found, now))
    for name, value in savepoint_facts(found):
        typer.echo(f"  {name:<12} {value}")


for command in (verify, diff, export, prune):
    savepoint.command()(command)
