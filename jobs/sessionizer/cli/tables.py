"""``sessionizer tables``: the places of a stream's tables, and queries to paste."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from sessionizer.cli.places import AsJson, Data, Home, Stream, Streams, stream_home, stream_spec
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.fleet.table_queries import TablePlace, place_of


def tables(
    stream: Stream, *, as_json: AsJson = False, streams: Streams = None, home: Home = None, data: Data = None
) -> None:
    """Show the places of the stream's Delta tables, with a query to paste for Spark SQL, DuckDB and Polars."""
    spec, where = stream_spec(streams, stream), stream_home(home, stream, data)
    locations = where.table_locations(spec_in_force(where, spec).sink.path)
    places = [place_of(name, path) for name, path in locations.items()]
    if as_json:
        typer.echo(json.dumps({"stream": stream, "tables": [asdict(place) for place in places]}, indent=1))
        return
    for place in places:
        typer.echo(f"{place.name} ({_version(place)})\n  {place.path}")
        if place.may_be_there:
            typer.echo(f"  Spark SQL  {place.spark_sql}\n  DuckDB     {place.duckdb}\n  Polars     {place.polars}")


def _version(place: TablePlace) -> str:
    if place.version is not None:
        return f"version {place.version}"
    return "not on this machine" if place.may_be_there else "not there yet"
