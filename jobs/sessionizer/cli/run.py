"""``sessionizer run``: drive one stream in the foreground."""

from __future__ import annotations

import os
import secrets
from typing import Annotated

import typer

from sessionizer.cli.places import Home, Streams, stream_spec


def run(
    stream: Annotated[str, typer.Argument(help="Name of the stream.")],
    *,
    streams: Streams = None,
    home: Home = None,
    uid: Annotated[str | None, typer.Option(help="Id of this driver; made up if not given.")] = None,
    until: Annotated[str, typer.Option(help="stopped, caught-up or drained.")] = "stopped",
    master: Annotated[str | None, typer.Option(help="Spark master; spark-submit's if run by it, else local[*].")] = None,
) -> None:
    """Run the stream until it is stopped, or (--until) has caught up or is drained."""
    from sessionizer.control.stream_home import platform_home  # noqa: PLC0415  fast --help
    from sessionizer.spark.driver import DriverOptions, Until, drive  # noqa: PLC0415

    spec = stream_spec(streams, stream)
    options = DriverOptions(
        platform_home=(home or platform_home()).absolute(),
        uid=uid or secrets.token_hex(4),
        until=Until(until),
        master=master or default_master(),
    )
    record = drive(spec, options, say=lambda line: typer.echo(line, err=True))
    typer.echo(f"stream {stream} {record.outcome} after batch {record.batch_id}")


def default_master() -> str | None:
    """None under spark-submit, which decides; else the whole machine."""
    return None if "PYSPARK_GATEWAY_PORT" in os.environ else os.environ.get("SESSIONIZER_MASTER", "local[*]")
