"""``sessionizer status``: the state of the streams, as a table or as JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sessionizer.cli.places import AsJson, Home, StreamOrAll, Streams, home_folder, nothing_known, specs_folder
from sessionizer.cli.terminal import say, this_command_line
from sessionizer.control.status.driver_status import State
from sessionizer.deployment.releases import RELEASES_VARIABLE
from sessionizer.deployment.running_spec import pending_line
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.streams import all_streams, one_stream
from sessionizer.home.clock import describe_duration, epoch_ms, moment_text
from sessionizer.home.control_store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.control.records.driver_records import Heartbeat
    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.fleet.stream_view import StreamView

NOTHING: Final = "–"
COLUMNS: Final = (
    "stream", "state", "health", "batch", "ev/s", "lag", "watermark (age)", "open", "emitted", "late", "quarantined",
    "last sign", "driver",
)  # fmt: skip
_COLOURS: Final = {
    State.RUNNING: "green", State.IDLE: "green", State.STARTING: "cyan", State.STOPPING: "cyan",
    State.STALLED: "yellow", State.FAILED: "red", State.VANISHED: "red",
}  # fmt: skip
_COLOURS_OF_HEALTH: Final = {
    HealthWord.HEALTHY: "green", HealthWord.WARNING: "cyan", HealthWord.UNKNOWN: "yellow",
    HealthWord.DEGRADED: "yellow", HealthWord.DOWN: "red",
}  # fmt: skip
_WIDTH_OF_A_FILE: Final = 200


def status(
    stream: StreamOrAll = None,
    *,
    as_json: AsJson = False,
    streams: Streams = None,
    home: Home = None,
) -> None:
    """Show the state of each stream, and a remedy for each problem."""
    folder, platform = specs_folder(streams), home_folder(home)
    if stream:
        found = [one_stream(platform, folder, stream)]
    else:
        found = [view for view in all_streams(platform, folder) if view.is_listed]
    if as_json:
        typer.echo(json.dumps([view.to_json() for view in found], indent=1))
    else:
        _print_table(found, epoch_ms())
        typed = this_command_line()
        for view in found:
            for line in _lines(view):
                typer.echo(f"{view.name}: {typed.complete(line)}")
    strangers = [view.name for view in found if view.home is not None and not Store(view.home.control).exists()]
    if strangers:
        say(f"note: {nothing_known(platform, strangers)}")
    code = max((view.exit_code for view in found), default=0)
    if stream and found[0].problem is not None:
        code = found[0].problem.exit_code
    if code:
        raise typer.Exit(code)


def _lines(view: StreamView) -> list[str]:
    """Return the findings, and the facts for which no column has room."""
    lines = [*(finding.line for finding in view.health.findings), *view.notes]
    if view.other_python is not None:
        lines.append(f"its driver was started by {view.other_python} ({RELEASES_VARIABLE})")
    if view.bundle is not None:
        lines.append(f"runs with DAG bundle {view.bundle}")
    lines += [f"excludes from its source: {each}" for each in view.excluded_ranges]
    lines += [f"rows changed by another writer: {change}" for change in view.table_changes]
    if view.changes:
        lines.append(pending_line(view.name, view.changes))
    return lines


def _print_table(found: Sequence[StreamView], now: int) -> None:
    """Print one row per stream. In a file or pipe no row is cut to the width of a terminal."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in {"stream", "state", "health", "driver"} else "right")
    for status in found:
        table.add_row(*_row(status, now))
    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE).print(table)


def _row(status: StreamView, now: int) -> list[str]:
    seen, word = status.driver, status.health.word
    health = f"[{_COLOURS_OF_HEALTH[word]}]{word}[/{_COLOURS_OF_HEALTH[word]}]"
    if seen is None:
        return [status.name, f"[red]{status.state}[/red]", health, *[NOTHING] * (len(COLUMNS) - 3)]
    colour = "red" if status.problem is not None else _COLOURS.get(seen.state, "default")
    age = NOTHING if seen.age_ms is None else f"{describe_duration(seen.age_ms)} ago"
    return [status.name, f"[{colour}]{status.state}[/{colour}]", health, *_figures(seen, now), age, _driver(seen)]


def _figures(seen: DriverStatus, now: int) -> list[str]:
    beat = seen.heartbeat
    if beat is None:
        return [NOTHING] * 8
    rate = beat.rows_per_second if seen.state is State.RUNNING else None
    counts = (beat.open_keys, beat.sessions_rows, beat.late, beat.quarantined)
    figures = [NOTHING if beat.batch_id is None else str(beat.batch_id), _number(rate), _number(beat.source_lag)]
    return [*figures, _watermark(beat, now), *map(_number, counts)]


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def _watermark(beat: Heartbeat, now: int) -> str:
    if beat.watermark_ms is None:
        return NOTHING
    if beat.is_drained:
        return "drained"
    moment = moment_text(beat.watermark_ms).removesuffix(" UTC")[len("2026-") :]
    return f"{moment} ({describe_duration(now - beat.watermark_ms)})"


def _driver(seen: DriverStatus) -> str:
    lease = seen.lease
    if lease is None:
        return NOTHING
    return f"{lease.uid} (pid {lease.pid})" if seen.state.is_live else f"{lease.uid}"
