"""``sessionizer savepoint create``, ``list`` and ``show``: what is open in a stream, kept as tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, Streams, spark_master, stream_home
from sessionizer.cli.savepoint_care import diff, export, prune, verify
from sessionizer.cli.savepoint_words import (
    Folder,
    Id,
    contents_line,
    savepoint_facts,
    savepoint_json,
    savepoint_line,
    savepoints_folder,
)
from sessionizer.cli.stop import stop
from sessionizer.cli.terminal import named_failures, say, started_spark
from sessionizer.control.status.observe import read_observation
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_root import uri_of
from sessionizer.launch.background import give_way
from sessionizer.state.lineages.standing import standing_of
from sessionizer.state.savepoints.making import SavepointRequest
from sessionizer.state.savepoints.native import make_native_savepoint
from sessionizer.state.savepoints.shelf import savepoint_of, savepoints_in

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.savepoints.manifest import Manifest

savepoint = typer.Typer(no_args_is_help=True, help="Make, show and look after savepoints: what is open, as tables.")


@savepoint.command()
def create(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    id: Annotated[  # noqa: A002  the option's name
        str | None, typer.Option(help="Its id; made up if not given. One that is complete is not made again.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="The batch; the newest that is over if not given.")] = None,
    stopping: Annotated[
        bool, typer.Option("--stop", help="Stop the stream first: it reads nothing more after what is saved.")
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the stop.", min=1)] = 60.0,
    native: Annotated[
        bool, typer.Option("--native", help="Copy the checkpoint's files: quick, and for this line of Spark only.")
    ] = False,
    hurry: Annotated[
        bool, typer.Option("--hurry", help="Take as much of the machine as the stream does, which then feels it.")
    ] = False,
    why: Annotated[str, typer.Option(help="The reason, for whoever asks later.")] = "sessionizer savepoint create",
    folder: Folder = None,
    as_json: AsJson = False,
    streams: Streams = None,
    home: Home = None,
    data: Data = None,
    master: Master = None,
) -> None:
    """Save what is open after a committed batch; without --stop the stream is not touched, and may run on."""
    where = stream_home(home, stream, data)
    if stopping:
        stop(stream, wait=wait, why=why, streams=streams, home=home)
    live = read_observation(where, epoch_ms()).state.is_live
    asked = SavepointRequest(savepoints_folder(where, folder), why, id, live=live)
    standing_of(where, batch)  # what is wrong with it is told before Spark starts
    if live and not hurry:
        give_way()
    made = _native(where, batch, asked) if native else _canonical(where, batch, asked, spark_master(master))
    if as_json:
        typer.echo(json.dumps(made.to_json(), indent=1))
        return
    typer.echo(f"savepoint {made.id} of {stream} after batch {made.batch_id}: {contents_line(made)}")
    typer.echo(uri_of(asked.folder / made.id))


def _native(where: StreamHome, batch: int | None, asked: SavepointRequest) -> Manifest:
    standing = standing_of(where, batch)
    return make_native_savepoint(where, standing, asked, _told)


def _canonical(where: StreamHome, batch: int | None, asked: SavepointRequest, master: str | None) -> Manifest:
    from sessionizer.spark.state.savepoints.savepoint import make_savepoint  # noqa: PLC0415  fast --help

    say(f"starting Spark for a savepoint of {where.name}")
    spark = started_spark(f"sessionizer savepoint {where.name}", master)
    with named_failures(where.name):
        standing = standing_of(where, batch)
        say(f"saving lineage {standing.lineage} after batch {standing.batch_id}")
        made = make_savepoint(spark, where, standing, asked, _told)
    spark.stop()
    return made


def _told(step: str) -> None:
    say(f"done: {step}")


@savepoint.command("list")
def list_(stream: Stream, *, folder: Folder = None, as_json: AsJson = False, home: Home = None) -> None:
    """List the savepoints of the stream, the oldest first, also those that were not completed."""
    now = epoch_ms()
    found = savepoints_in(savepoints_folder(stream_home(home, stream), folder), now)
    if as_json:
        typer.echo(json.dumps([savepoint_json(each) for each in found], indent=1))
    elif not found:
        typer.echo(f"stream {stream} has no savepoints")
    else:
        typer.echo("\n".join(savepoint_line(each, now) for each in found))


@savepoint.command()
def show(stream: Stream, id: Id, *, folder: Folder = None, as_json: AsJson = False, home: Home = None) -> None:  # noqa: A002  the argument's name
    """Show all that a savepoint says of itself, and where its tables are."""
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
