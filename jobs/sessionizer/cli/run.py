"""``sessionizer run``: drive one stream in the foreground."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import (
    Data,
    Home,
    Master,
    Stream,
    Streams,
    data_folder,
    home_folder,
    spark_master,
    specs_folder,
)
from sessionizer.cli.terminal import say
from sessionizer.control.maintenance import record_false_start
from sessionizer.control.records.process_records import require_shared_home
from sessionizer.deployment.running_spec import list_named_variables
from sessionizer.errors import SessionizerError
from sessionizer.home.control_store import Store
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.driver_environment import driver_environment
from sessionizer.spark.driver.options import Until
from sessionizer.stream_spec.spec_folder import read_spec_file

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.stream_spec.spec_folder import SpecFile


def run(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    streams: Streams = None,
    home: Home = None,
    data: Data = None,
    uid: Annotated[str | None, typer.Option(help="Id of this driver. Default: a new one.")] = None,
    until: Annotated[
        Until,
        typer.Option(help="When to end by itself. drained closes every session for good, so no later run can resume."),
    ] = Until.STOPPED,
    apply: Annotated[bool, typer.Option("--apply", help="Apply the spec's file as it is now.")] = False,
    accept_tables: Annotated[
        bool,
        typer.Option("--accept-tables", help="Continue with the tables as they are, and make missing tables again."),
    ] = False,
    every: Annotated[float, typer.Option(help="Seconds between two lines of progress.", min=0)] = 10.0,
    master: Master = None,
) -> None:
    """Run the stream until it is stopped (Ctrl-C: at a batch boundary), or (--until) has caught up or is drained."""
    platform = home_folder(home)
    own_id = uid or secrets.token_hex(4)
    where = StreamHome.of(platform, stream, data_folder(data, platform))
    require_shared_home(where, own_id)
    file = _spec_file(stream, streams, platform, uid)
    _forget_other_variables(where, specs_folder(streams))
    from sessionizer.spark.driver.driver_loop import drive  # noqa: PLC0415  fast --help
    from sessionizer.spark.driver.options import DriverOptions  # noqa: PLC0415  fast --help

    options = DriverOptions(
        uid=own_id,
        until=until,
        master=spark_master(master),
        progress_every_s=every,
        apply=apply,
        accept_tables=accept_tables,
    )
    say(f"home: {platform}")
    if where.control_root is not None:
        say(f"control: {uri_of(where.control_root)}")
    if where.data_root is not None:
        say(f"data: {uri_of(where.data_root)}")
    record = drive(where, file, options, say)
    typer.echo(f"stream {stream} {record.outcome} {describe_last_batch(record.batch_id)}")


def describe_last_batch(batch_id: int | None) -> str:
    """Say after which batch a driver ended. None means before the first."""
    return "before its first batch" if batch_id is None else f"after batch {batch_id}"


def _forget_other_variables(home: StreamHome, streams: Path) -> None:
    """Remove other environment variables before Spark starts, because its JVM and Python workers inherit them."""
    kept = driver_environment(os.environ, list_named_variables(home, streams))
    for name in os.environ.keys() - kept.keys():
        if not name.startswith("_PYSPARK"):
            del os.environ[name]


def _spec_file(stream: str, streams: Path | None, platform: Path, uid: str | None) -> SpecFile:
    """Read the spec file of the stream.

    If it fails under a ``uid``, an exit record is written, because the supervisor waits for one even from a driver that
    never starts. A broken file does not keep a stream from running by the spec that it had.
    """
    home = StreamHome.of(platform, stream)
    try:
        file = read_spec_file(specs_folder(streams), stream)
        if not Store(home.control).exists():
            file.required()
    except SessionizerError as error:
        if uid is not None:
            record_false_start(home, uid, error)
        raise
    return file
