"""``sessionizer report``: bring ``sessions_daily`` up to date."""

from __future__ import annotations

import typer

from sessionizer.cli.places import Home, Master, Stream, Streams, home_folder, spark_master, stream_spec
from sessionizer.cli.terminal import named_failures, say, started_spark
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.home.stream_home import StreamHome
from sessionizer.home.table_places import table_locations


def report(stream: Stream, *, streams: Streams = None, home: Home = None, master: Master = None) -> None:
    """Compute sessions_daily anew for the days that sessions came to since the last run."""
    spec, platform = stream_spec(streams, stream), home_folder(home)
    from sessionizer.spark.history.report import DailyReport  # noqa: PLC0415
    from sessionizer.spark.sinks import table_shapes  # noqa: PLC0415  fast --help

    where = StreamHome.of(platform, stream)
    spec = spec_in_force(where, spec)
    locations = table_locations(where, platform, spec.sink.path)
    say(f"starting Spark for the report of {stream}")
    spark = started_spark(f"sessionizer report {stream}", spark_master(master))
    with named_failures(stream):
        daily = DailyReport(
            spark,
            sessions=locations[table_shapes.SESSIONS],
            daily=locations[table_shapes.SESSIONS_DAILY],
            measures=tuple(spec.measures),
            bookmarks=where.bookmarks,
        )
        done = daily.refresh()
    spark.stop()
    if done is None:
        typer.echo(f"stream {stream} has no table of sessions yet: nothing to report")
        return
    how = "rebuilt" if done.rebuilt else "refreshed"
    typer.echo(f"{how} {len(done.dates)} days, {done.rows} rows: {locations[table_shapes.SESSIONS_DAILY]}")
