"""``sessionizer history`` and ``report``: the sessions of a history, and the daily report of sessions."""

from __future__ import annotations

import time
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import (
    Data,
    Home,
    Master,
    Stream,
    Streams,
    home_folder,
    spark_master,
    stream_home,
    stream_spec,
)
from sessionizer.cli.terminal import say, start_spark, translate_failures
from sessionizer.counts import count_text
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.errors import InvalidSpec, UnwritablePath
from sessionizer.home.clock import epoch_ms, moment_of
from sessionizer.home.home_identity import owner_name
from sessionizer.home.names import SESSIONS, SESSIONS_DAILY, STREAM_HISTORY
from sessionizer.home.roots import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sessionizer.spark.history.read import EventHistory


def history(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    folder: Annotated[Path, typer.Option("--input", help="Folder of the history: files as the source, or Delta.")],
    until: Annotated[
        str | None, typer.Option(help="Only sessions that are final at this time (ISO 8601, UTC by default).")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="New folder for the Delta tables. Default: print only counts.")
    ] = None,
    streams: Streams = None,
    home: Home = None,
    master: Master = None,
) -> None:
    """Sessionize a history by the stream's rules, all at once. The stream itself is not changed."""
    spec, until_ms = stream_spec(streams, stream), None if until is None else moment_of(until, "--until")
    if not folder.is_dir():
        raise InvalidSpec("--input", str(folder), "an existing folder")
    if to is not None and to.exists():
        raise UnwritablePath(to, "the result", "it exists, and nothing is overwritten")
    from sessionizer.spark.history.read import read_event_history  # noqa: PLC0415  fast --help
    from sessionizer.spark.sinks.write import few_blobs_at_a_time  # noqa: PLC0415  fast --help

    say("starting Spark")
    started = time.monotonic()
    spark = start_spark(f"sessionizer history {stream}", spark_master(master))
    with translate_failures(stream), few_blobs_at_a_time(spark):
        say("reading the history")
        found = read_event_history(spark, spec, folder.absolute(), home_folder(home))
        _tell_rows(found)
        _write(found, until_ms, to)
    spark.stop()
    say(f"done in {time.monotonic() - started:.0f} s")


def _tell_rows(found: EventHistory) -> None:
    refused = found.figures.refused
    typer.echo(f"events       {found.figures.events:>12,}")
    typer.echo(f"quarantined  {sum(refused.values()):>12,}")
    for reason, count in sorted(refused.items()):
        typer.echo(f"  {reason:<22} {count:>12,}")


def _write(found: EventHistory, until_ms: int | None, to: Path | None) -> None:
    say("sessionizing")
    taken = found.take(until_ms)
    _tell_sessions(_write_table(found.sessions(taken), to, "sessions"))
    if until_ms is not None:
        say("collecting open sessions")
        typer.echo(f"open events  {_write_table(found.open_events(taken), to, 'open_events').count():>12,}")


def _write_table(frame: DataFrame, to: Path | None, name: str) -> DataFrame:
    """Write ``frame`` as the Delta table ``name``, and return the table."""
    if to is None:
        return frame
    location = str(to.absolute() / name)
    frame.write.format("delta").mode("errorifexists").save(location)
    typer.echo(f"wrote {location}")
    return frame.sparkSession.read.format("delta").load(location)


def _tell_sessions(sessions: DataFrame) -> None:
    counts = {row.close_reason: row["count"] for row in sessions.groupBy("close_reason").count().collect()}
    typer.echo(f"sessions     {sum(counts.values()):>12,}")
    for reason, count in sorted(counts.items()):
        typer.echo(f"  {reason:<22} {count:>12,}")


def report(
    stream: Stream, *, streams: Streams = None, home: Home = None, data: Data = None, master: Master = None
) -> None:
    """Update sessions_daily for the days that got sessions, and add the complete hours to stream_history."""
    spec, where = stream_spec(streams, stream), stream_home(home, stream, data)
    from sessionizer.spark.history.report import DailyReport, append_history  # noqa: PLC0415
    from sessionizer.spark.sinks.tables import name_tables  # noqa: PLC0415

    spec = spec_in_force(where, spec)
    locations = where.table_locations(spec.sink.path)
    say(f"starting Spark for the report of {stream}")
    spark = start_spark(f"sessionizer report {stream}", spark_master(master), local_data=is_local(where.data))
    with translate_failures(stream):
        daily = DailyReport(
            spark,
            sessions=locations[SESSIONS],
            daily=locations[SESSIONS_DAILY],
            measures=tuple(spec.measures),
            bookmarks=where.bookmarks,
        )
        done = daily.refresh()
        told = append_history(spark, where, locations[STREAM_HISTORY], epoch_ms())
        name_tables(spark, spec.sink.table, locations, owner_name(where.name, where.control_base))
    spark.stop()
    typer.echo(f"added {count_text(told, 'row')}: {locations[STREAM_HISTORY]}")
    if done is None:
        typer.echo(f"stream {stream} has no table of sessions yet: nothing to report")
        return
    how = "rebuilt" if done.rebuilt else "refreshed"
    written = f"{count_text(len(done.dates), 'day')}, {count_text(done.rows, 'row')}"
    typer.echo(f"{how} {written}: {locations[SESSIONS_DAILY]}")
