"""``sessionizer stop``: ask the live driver of a stream to end at its next batch boundary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sessionizer.cli.places import Home, Stream, Streams, home_folder, require_known_stream
from sessionizer.cli.terminal import say
from sessionizer.control.maintenance import ask_to_stop
from sessionizer.control.records.process_records import request_stop
from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.control.status.driver_status import State
from sessionizer.control.status.read_status import read_driver, read_status
from sessionizer.control.status.unfinished_operation import read_unfinished
from sessionizer.control.timeouts import read_configured_timeouts
from sessionizer.fleet.streams import has_watched_spec
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import Verb, dag_id, is_command
from sessionizer.home.stream_home import StreamHome
from sessionizer.redaction import redact

if TYPE_CHECKING:
    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.control.status.unfinished_operation import UnfinishedOperation

STILL_RUNNING: Final = 3
"""Exit code when the driver has not ended within ``--wait``."""

_POLL_S: Final = 0.2


def stop(
    stream: Stream,
    *,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the driver's end. 0: do not wait.", min=0)] = 60.0,
    why: Annotated[str, typer.Option(help="The reason, which is kept.")] = "sessionizer stop",
    streams: Streams = None,
    home: Home = None,
) -> None:
    """Stop the stream: its driver finishes the running batch and ends. Harmless when repeated or not running."""
    where = StreamHome.of(home_folder(home), stream)
    require_known_stream(where, streams)
    seen = read_status(where, epoch_ms(), read_configured_timeouts())
    unfinished = read_unfinished(where, seen.owner, epoch_ms())
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
        _tell_end(stream, seen.uid, _await_end(where, seen, wait), wait)


def _name_command_at_work(seen: DriverStatus, unfinished: UnfinishedOperation | None) -> str | None:
    """Name the command that has the stream, if one has. It listens to no request to stop.

    One that has the lease, and no record yet, is not unfinished if a user started or stopped the stream meanwhile.
    """
    if unfinished is not None:
        return unfinished.standing if unfinished.is_at_work else None
    return seen.uid if seen.state.is_live and is_command(seen.uid) else None


def _await_end(where: StreamHome, asked: DriverStatus, seconds: float) -> DriverStatus:
    uid, deadline = asked.uid, time.monotonic() + seconds
    say(f"asked driver {uid} to stop, waiting up to {seconds:g} s for its batch to end")
    while True:
        seen = read_driver(where, epoch_ms(), uid=uid, launch=asked.launch)
        if not seen.state.is_live or time.monotonic() >= deadline:
            return seen
        time.sleep(_POLL_S)


def _tell_end(stream: str, uid: str, seen: DriverStatus, wait: float) -> None:
    if not seen.state.is_live:
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
    has_spec = has_watched_spec(where)
    if has_spec is False:  # its DAGs are gone as well, such as the one that would keep it stopped
        say("note: no spec describes it any more, so no supervisor starts the next driver")
        return
    supervised = seen.desired.at or (seen.launch is not None and has_spec)
    if seen.desired.state is DesiredState.RUNNING and supervised:
        stop_dag = dag_id(where.name, Verb.STOP)
        say(f"note: a supervisor starts the next driver. To keep the stream stopped, run {stop_dag}")
