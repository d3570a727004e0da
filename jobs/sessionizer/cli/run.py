"""``sessionizer run``: drive one stream in the foreground."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import Home, Master, Stream, Streams, home_folder, spark_master, stream_spec
from sessionizer.cli.terminal import say
from sessionizer.control.failed_exit import record_false_start
from sessionizer.control.stream_home import StreamHome
from sessionizer.errors import SessionizerError
from sessionizer.spark.until import Until

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.spec.stream import StreamSpec


def run(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    streams: Streams = None,
    home: Home = None,
    uid: Annotated[str | None, typer.Option(help="Id of this driver; made up if not given.")] = None,
    until: Annotated[Until, typer.Option(help="When to end by itself.")] = Until.STOPPED,
    every: Annotated[float, typer.Option(help="Seconds between two lines of progress.", min=0)] = 10.0,
    master: Master = None,
) -> None:
    """Run the stream until it is stopped, or (--until) has caught up or is drained. Ctrl-C drains it."""
    platform = home_folder(home)
    spec = _spec(stream, streams, platform, uid)
    from sessionizer.spark.driver import DriverOptions, drive  # noqa: PLC0415  fast --help

    options = DriverOptions(
        platform_home=platform,
        uid=uid or secrets.token_hex(4),
        until=until,
        master=spark_master(master),
        progress_every_s=every,
    )
    record = drive(spec, options, say)
    typer.echo(f"stream {stream} {record.outcome} after batch {record.batch_id}")


def _spec(stream: str, streams: Path | None, platform: Path, uid: str | None) -> StreamSpec:
    """The spec. Who launched us under a ``uid`` waits for that driver's exit record, even if it never starts."""
    try:
        return stream_spec(streams, stream)
    except SessionizerError as error:
        if uid is not None:
            record_false_start(StreamHome.of(platform, stream), uid, error)
        raise
