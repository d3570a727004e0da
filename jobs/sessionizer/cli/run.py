"""``sessionizer run``: drive one stream in the foreground."""

import os
import secrets
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from sessionizer.cli.places import Options, Stream, require_known_stream, shares, spark_master
from sessionizer.cli.terminal import say
from sessionizer.control.maintenance import ask_to_stop, record_false_start
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.control.records.process_records import request_stop, require_shared_home
from sessionizer.control.records.supervision_records import WATCH_FILE, DesiredState
from sessionizer.control.status.driver_status import DriverStatus, State, read_driver, read_status
from sessionizer.control.status.unfinished_operation import UnfinishedOperation, read_unfinished
from sessionizer.control.timeouts import read_configured_timeouts
from sessionizer.deployment.running_spec import list_named_variables
from sessionizer.errors import SessionizerError
from sessionizer.fleet.streams import has_watched_spec
from sessionizer.home.clock import DAY, epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.names import Verb, dag_id, is_command
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.driver_environment import driver_environment
from sessionizer.redaction import redact
from sessionizer.spark.driver.options import Until
from sessionizer.stream_spec.spec_folder import SpecFile, read_spec_file


@shares("streams", "home", "data", "uid", "until", "apply", "accept_tables", "every", "master")
def run(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    at: Options,
    *,
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
    every: Annotated[float, typer.Option(help="Seconds between two lines of progress.", min=0, max=DAY // 1000)] = 10.0,
) -> None:
    """Run the stream until it is stopped (Ctrl-C: at a batch boundary), or (--until) has caught up or is drained."""
    platform = at.platform
    own_id = uid or secrets.token_hex(4)
    where = StreamHome.of(platform, stream, at.data_root)
    require_shared_home(where, own_id)
    file = _spec_file(stream, at.specs, platform, uid)
    _forget_other_variables(where, at.specs)
    from sessionizer.spark.driver.driver_loop import drive  # noqa: PLC0415  fast --help
    from sessionizer.spark.driver.options import DriverOptions  # noqa: PLC0415  fast --help

    master = spark_master(at.master)
    options = DriverOptions(own_id, until, master, progress_every_s=every, apply=apply, accept_tables=accept_tables)
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


def _spec_file(stream: str, specs: Path, platform: Path, uid: str | None) -> SpecFile:
    """Read the spec file of the stream.

    If it fails under a ``uid``, an exit record is written, because the supervisor waits for one even from a driver that
    never starts. A broken file does not keep a stream from running by the spec that it had.
    """
    home = StreamHome.of(platform, stream)
    try:
        file = read_spec_file(specs, stream)
        if not Store(home.control).exists():
            file.required()
    except SessionizerError as error:
        if uid is not None:
            record_false_start(home, uid, error)
        raise
    return file


STILL_RUNNING: Final = 3
"""Exit code when the driver has not ended within ``--wait``."""

_POLL_S: Final = 0.2


@shares("streams", "home")
def stop(
    stream: Stream,
    at: Options,
    *,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the driver's end. 0: do not wait.", min=0)] = 60.0,
    why: Annotated[str, typer.Option(help="The reason, which is kept.")] = "sessionizer stop",
) -> None:
    """Stop the stream: its driver finishes the running batch and ends. Harmless when repeated or not running."""
    where = StreamHome.of(at.platform, stream)
    require_known_stream(where, at.streams)
    seen = read_status(where, epoch_ms(), read_configured_timeouts())
    unfinished = read_unfinished(where, pending_operation(where), seen.owner, epoch_ms())
    command = _name_command_at_work(seen, unfinished)
    if command is not None:
        typer.echo(f"a command has stream {stream}: {command}")
        say(f"note: run the DAG {dag_id(stream, Verb.STOP)} if no driver should start afterwards")
        return
    if unfinished is not None and not seen.state.is_live:
        typer.echo(f"stream {stream} is not running: {unfinished.standing}")
        say(f"note: no driver starts before that is over: {unfinished.what_to_do}")
        return
    if not seen.state.is_live or not seen.uid:
        typer.echo(f"stream {stream} is not running ({_describe_end(seen)})")
        return
    if seen.uid not in ask_to_stop(where, why):
        request_stop(where, seen.uid, why)  # fenced, and only its cluster may know more
    _warn_of_supervisor(where, seen)
    if wait == 0:
        typer.echo(f"asked driver {seen.uid} of {stream} to stop")
    else:
        _await_end(where, seen, wait)


def _name_command_at_work(seen: DriverStatus, unfinished: UnfinishedOperation | None) -> str | None:
    """Name the command that has the stream, if one has. It listens to no request to stop.

    One that has the lease, and no record yet, is not unfinished if a user started or stopped the stream meanwhile.
    """
    if unfinished is not None:
        return unfinished.standing if unfinished.is_at_work else None
    return seen.uid if seen.state.is_live and is_command(seen.uid) else None


def _await_end(where: StreamHome, asked: DriverStatus, wait: float) -> None:
    """Wait for the driver's end and tell it. Raises Exit if it still runs."""
    stream, uid, deadline = where.name, asked.uid, time.monotonic() + wait
    say(f"asked driver {uid} to stop, waiting up to {wait:g} s for its batch to end")
    while (seen := read_driver(where, epoch_ms(), uid=uid, launch=asked.launch)).state.is_live:
        if time.monotonic() >= deadline:
            break
        time.sleep(_POLL_S)
    else:
        typer.echo(f"stream {stream}: driver {uid} has ended ({_describe_end(seen)})")
        return
    typer.echo(
        f"stream {stream}: driver {uid} still runs after {wait:g} s (state {seen.state}). It will stop after its batch"
    )
    if seen.state is State.STALLED and seen.lease is not None:
        say(f"remedy: run `kill {seen.lease.pid}` on {seen.lease.host} if the silent driver hangs")
    raise typer.Exit(STILL_RUNNING)


def _describe_end(seen: DriverStatus) -> str:
    record = seen.exit_record
    if record is None:
        silent = {State.NEVER_STARTED: "it never started", State.VANISHED: "its process is gone without an exit record"}
        return silent.get(seen.state, "it gave up its lease")
    because = f": {redact(record.message).splitlines()[0]}" if record.message else ""
    after = "" if record.batch_id is None else f" after batch {record.batch_id}"
    return f"{record.outcome}{after}{because}"


def _warn_of_supervisor(where: StreamHome, seen: DriverStatus) -> None:
    """Say that a supervisor starts the stream again: a driver that Airflow launched has one while it has a spec."""
    has_spec = has_watched_spec(where.name, WATCH_FILE.of(where).read())
    if has_spec is False:  # its DAGs are gone as well, such as the one that would keep it stopped
        say("note: no spec describes it any more, so no supervisor starts the next driver")
        return
    supervised = seen.desired.at or (seen.launch is not None and has_spec)
    if seen.desired.state is DesiredState.RUNNING and supervised:
        stop_dag = dag_id(where.name, Verb.STOP)
        say(f"note: a supervisor starts the next driver. To keep the stream stopped, run {stop_dag}")
