"""``sessionizer home``, ``tables`` and ``bundle``: the places of a stream's files, and all that helps, in one file."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from sessionizer.cli.places import (
    AsJson,
    Data,
    Home,
    Stream,
    Streams,
    home_folder,
    specs_folder,
    stream_home,
    stream_spec,
)
from sessionizer.cli.terminal import say
from sessionizer.counts import count_text
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.errors import InvalidSpec, UnwritablePath
from sessionizer.fleet.bundle import collect_bundle, write_bundle
from sessionizer.fleet.streams import find_view
from sessionizer.fleet.table_queries import TablePlace, table_places
from sessionizer.home.home_identity import note_home_here, place_of, read_identity
from sessionizer.home.roots import HOME_VARIABLE, control_root, data_root, uri_of
from sessionizer.home.stream_home import stream_homes
from sessionizer.lineage.active import claim_data, note_moved_data


def home(
    *,
    home: Home = None,
    moved_here: Annotated[
        bool, typer.Option("--moved-here", help="Note that the home was moved here. Its old place is out of use.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(help="With --moved-here: the data root to which you have copied the tables. Then restore."),
    ] = None,
) -> None:
    """Show the id of the home, by which tables know their owner, and the place where it was made."""
    platform = home_folder(home)
    if data and not moved_here:
        raise InvalidSpec("--data", data, "Give it with --moved-here only")
    control = control_root(platform)
    found = read_identity(control)
    if found is None:
        raise InvalidSpec("--home" if home else HOME_VARIABLE, uri_of(control), "a home in which a stream has run")
    here = place_of(control)
    if moved_here:
        for stream in stream_homes(platform) if data else ():
            moved = replace(stream, data_root=data_root(data, platform, "--data"))
            moved.prepare_data()
            claim_data(moved)
            lineage = note_moved_data(moved)
            typer.echo(f"stream {stream.name}, lineage {lineage}: its data is now at {data}")
        note_home_here(control)
        typer.echo(f"home {found.id} is now noted at {here}. Before: {found.place}")
    elif found.place.is_same(here):
        typer.echo(f"home {found.id} is at {here}")
    else:
        typer.echo(f"home {found.id} was made at {found.place}. The one at {here} is a copy, or was moved")


def tables(
    stream: Stream, *, as_json: AsJson = False, streams: Streams = None, home: Home = None, data: Data = None
) -> None:
    """Show the places of the stream's Delta tables, with a query to paste for Spark SQL, DuckDB and Polars."""
    spec, where = stream_spec(streams, stream), stream_home(home, stream, data)
    places = table_places(where, spec_in_force(where, spec).sink)
    if as_json:
        typer.echo(json.dumps({"stream": stream, "tables": [asdict(place) for place in places]}, indent=1))
        return
    for place in places:
        typer.echo(f"{place.name} ({_version(place)})\n  {place.path}")
        if place.catalog_name is not None:
            typer.echo(f"  {place.catalog_name}")
        if place.may_be_there:
            typer.echo(f"  Spark SQL  {place.spark_sql}")
            typer.echo(f"  DuckDB     {_query(place.duckdb, 'deltalake', 'duckdb')}")
            typer.echo(f"  Polars     {_query(place.polars, 'deltalake', 'polars')}")


def _query(command: str, *modules: str) -> str:
    lacking = [name for name in modules if find_spec(name) is None]
    return f"`{sys.executable} -m pip install {' '.join(lacking)}` first" if lacking else command


def _version(place: TablePlace) -> str:
    if place.version is not None:
        return f"version {place.version}"
    return "not on this machine" if place.may_be_there else "not there yet"


def bundle(
    stream: Stream,
    *,
    to: Annotated[
        Path | None, typer.Option(help="The new file. Default: STREAM-bundle-TIME.tar.gz in this folder.")
    ] = None,
    streams: Streams = None,
    home: Home = None,
) -> None:
    """Write records, history, logs and the checkpoint's inspection into one file, without credentials and events."""
    specs = specs_folder(streams)
    file = to or Path(f"{stream}-bundle-{datetime.now(UTC):%Y%m%dT%H%M%S}.tar.gz")
    found = collect_bundle(find_view(home_folder(home), specs, stream), specs)
    try:
        write_bundle(found, stream, file)
    except FileExistsError as error:
        raise InvalidSpec("--to", str(file), "a new file") from error
    except OSError as error:
        raise UnwritablePath(file, "the bundle", error.strerror or str(error)) from error
    for name, why in found.missing.items():
        say(f"note: {name} is not in it: {why}")
    typer.echo(f"{file}: {count_text(len(found.files), 'file')}, {file.stat().st_size:,} bytes")
