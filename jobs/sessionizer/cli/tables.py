"""``sessionizer tables``: where a stream's tables are, and queries to paste."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from sessionizer.cli.places import AsJson, Home, Stream, Streams, home_folder, stream_spec
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.home.stream_home import StreamHome
from sessionizer.home.table_places import place_of, table_locations


def tables(stream: Stream, *, as_json: AsJson = False, streams: Streams = None, home: Home = None) -> None:
    """Show where the stream's Delta tables are, with a query to paste for Spark SQL, DuckDB and Polars."""
    spec, platform = stream_spec(streams, stream), home_folder(home)
    where = StreamHome.of(platform, stream)
    locations = table_locations(where, platform, spec_in_force(where, spec).sink.path)
    places = [place_of(name, path) for name, path in locations.items()]
    if as_json:
        typer.echo(json.dumps({"stream": stream, "tables": [asdict(place) for place in places]}, indent=1))
        return
    for place in places:
        version = "not there yet" if place.version is None else f"version {place.version}"
        typer.echo(f"{place.name} ({version})\n  {place.path}")
        if place.version is not None:
            typer.echo(f"  Spark SQL  {place.spark_sql}\n  DuckDB     {place.duckdb}\n  Polars     {place.polars}")
