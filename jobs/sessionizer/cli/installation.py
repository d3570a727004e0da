"""``sessionizer doctor`` and ``jars``: the check of an installation, and the jars on the class path of drivers."""

import secrets
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sessionizer.cli.places import Options, Stream, require_local, shares
from sessionizer.cli.terminal import say
from sessionizer.counts import count_text
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.doctor import Level, examine_installation
from sessionizer.errors import InvalidSpec, UnwritablePath
from sessionizer.fleet.bundle import collect_bundle, write_bundle
from sessionizer.fleet.streams import find_view
from sessionizer.fleet.table_queries import TablePlace, table_places
from sessionizer.home.home_identity import identity_file, note_home_here, place_of
from sessionizer.home.roots import HOME_VARIABLE, ObjectStore, control_root, data_root, uri_of
from sessionizer.home.stream_home import stream_homes
from sessionizer.launch.installation import JARS_VARIABLE, jar_folder
from sessionizer.launch.jars import fetch_jars, jar_names, list_file_names, other_versions
from sessionizer.lineage.active import claim_data, note_moved_data

UNFIT: Final = 66
"""Exit code if there is a problem."""
_COLOURS: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}
jars = typer.Typer(no_args_is_help=True, help="The jars on the class path of drivers.")


@shares("streams", "home", "as_json")
def doctor(
    at: Options, *, master: Annotated[str, typer.Option(help="Spark master that drivers will use.")] = "local[*]"
) -> None:
    """Check that streams can run here: Java, Python, jars, home, specs, Airflow, Spark. Each problem has its remedy.

    Ends with exit code 66 if there is a problem. A warning may be meant.
    """
    found = []
    for each in examine_installation(at.platform, at.specs, master):
        found.append(each)
        if not at.as_json:
            level = typer.style(f"{each.level:<8}", fg=_COLOURS[each.level])
            typer.echo(f"{level} {each.name}: {each.found}")
            if each.remedy:
                typer.echo(f"{'':<8} → {each.remedy}")
    at.show([each.to_json() for each in found], ())
    if any(each.level is Level.PROBLEM for each in found):
        raise typer.Exit(UNFIT)


@jars.callback()
def group() -> None:
    """The jars on the class path of drivers."""


@jars.command()
def fetch(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help=f"Folder for them. Default: {JARS_VARIABLE}, else one in this Python environment.",
            callback=require_local,
        ),
    ] = None,
    stores: Annotated[
        list[ObjectStore] | None,
        typer.Option("--with", help="Also those for an object store. May be repeated.", show_default=False),
    ] = None,
) -> None:
    """Fetch the jars that are missing, in exact versions. If none is, no registry is asked."""
    place = (folder or jar_folder()).expanduser().absolute()
    fetched = fetch_jars(place, stores or ())
    typer.echo(f"{len(jar_names(stores or ()))} jars are in {place}, {len(fetched)} of them fetched now")
    for name in other_versions(list_file_names(place)):
        say(f"warning: {name} is another version of a jar that drivers need. Remove {place / name}")
    if place != jar_folder():
        say(f"note: set {JARS_VARIABLE}={place} for every process of Airflow and for `sessionizer`")


@shares("streams", "home")
def page(
    at: Options,
    *,
    port: Annotated[int, typer.Option(help="Port on the loopback interface. 0: a free one.", min=0, max=65535)] = 0,
) -> None:
    """Serve the Streams page on this machine. The address that it prints has the token that lets a browser in."""
    try:
        import uvicorn  # noqa: PLC0415  fast --help

        from sessionizer.page.app import LOOPBACK, create_page_alone, listen  # noqa: PLC0415
    except ImportError as error:
        say(f"error: the page needs the packages fastapi and uvicorn ({error})")
        say("remedy: install them beside sessionizer: `pip install fastapi uvicorn`")
        raise typer.Exit(1) from error

    token = secrets.token_urlsafe(24)
    app: Any = create_page_alone(at.platform, at.specs, token)
    try:
        socket = listen(port)
    except OSError as error:
        raise InvalidSpec("--port", port, f"a free port ({error.strerror})") from error
    typer.echo(f"http://{LOOPBACK}:{socket.getsockname()[1]}/?token={token}")
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[socket])


@shares("home", "moved_here", "data")
def home(
    at: Options,
    *,
    moved_here: Annotated[
        bool, typer.Option("--moved-here", help="Note that the home was moved here. Its old place is out of use.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(help="With --moved-here: the data root to which you have copied the tables. Then restore."),
    ] = None,
) -> None:
    """Show the id of the home, by which tables know their owner, and the place where it was made."""
    platform = at.platform
    if data and not moved_here:
        raise InvalidSpec("--data", data, "Give it with --moved-here only")
    control = control_root(platform)
    found = identity_file(control).require()
    if found is None:
        raise InvalidSpec("--home" if at.home else HOME_VARIABLE, uri_of(control), "a home in which a stream has run")
    here = place_of(control)
    if moved_here:
        for stream in stream_homes(platform) if data else ():
            moved = replace(stream, data_root=data_root(data, platform, "--data"))
            moved.prepare_data()
            claim_data(moved)
            lineage = note_moved_data(moved)
            typer.echo(f"stream {stream.name}, lineage {lineage}: its data is now at {data}")
        note_home_here(control)
        typer.echo(f"home {found.id} is now noted at {here}. Before: {found}")
    elif found.is_same(here):
        typer.echo(f"home {found.id} is at {here}")
    else:
        typer.echo(f"home {found.id} was made at {found}. The one at {here} is a copy, or was moved")


@shares("as_json", "streams", "home", "data")
def tables(stream: Stream, at: Options) -> None:
    """Show the places of the stream's Delta tables, with a query to paste for Spark SQL, DuckDB and Polars."""
    spec, where = at.spec_of(stream), at.home_of(stream)
    places = table_places(where, spec_in_force(where, spec).sink)
    told = {"stream": stream, "tables": [asdict(place) for place in places]}
    at.show(told, (line for place in places for line in _lines(place)))


def _lines(place: TablePlace) -> Iterator[str]:
    yield f"{place.name} ({_version(place)})\n  {place.path}"
    if place.catalog_name is not None:
        yield f"  {place.catalog_name}"
    if place.may_be_there:
        yield f"  Spark SQL  {place.spark_sql}"
        yield f"  DuckDB     {_query(place.duckdb, 'deltalake', 'duckdb')}"
        yield f"  Polars     {_query(place.polars, 'deltalake', 'polars')}"


def _query(command: str, *modules: str) -> str:
    lacking = [name for name in modules if find_spec(name) is None]
    return f"`{sys.executable} -m pip install {' '.join(lacking)}` first" if lacking else command


def _version(place: TablePlace) -> str:
    if place.version is not None:
        return f"version {place.version}"
    return "not on this machine" if place.may_be_there else "not there yet"


@shares("streams", "home")
def bundle(
    stream: Stream,
    at: Options,
    *,
    to: Annotated[
        Path | None,
        typer.Option(help="The new file. Default: STREAM-bundle-TIME.tar.gz in this folder.", callback=require_local),
    ] = None,
) -> None:
    """Write records, history, logs and the checkpoint's inspection into one file, without credentials and events."""
    specs = at.specs
    file = to or Path(f"{stream}-bundle-{datetime.now(UTC):%Y%m%dT%H%M%S}.tar.gz")
    found = collect_bundle(find_view(at.platform, specs, stream), specs)
    try:
        write_bundle(found, stream, file)
    except FileExistsError as error:
        raise InvalidSpec("--to", str(file), "a new file") from error
    except OSError as error:
        raise UnwritablePath(file, "the bundle", error.strerror or str(error)) from error
    for name, why in found.missing.items():
        say(f"note: {name} is not in it: {why}")
    typer.echo(f"{file}: {count_text(len(found.files), 'file')}, {file.stat().st_size:,} bytes")
