"""``sessionizer status``: the state of the streams, as a table or as JSON."""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer
from rich.cells import cell_len

from sessionizer.cli.inspect.words import BETWEEN, padded, size, table_lines, table_text
from sessionizer.cli.places import (
    CommandLine,
    Options,
    Stream,
    StreamOrAll,
    nothing_known,
    require_known_stream,
    shares,
)
from sessionizer.cli.terminal import say
from sessionizer.control.history.files import KEPT_MS, Mark, read_history
from sessionizer.control.history.sample import PHASES, Sample, bucket_ms, condense
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.deployment.releases import RELEASES_VARIABLE
from sessionizer.deployment.running_spec import pending_line
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.stream_view import StreamView
from sessionizer.fleet.streams import all_streams, one_stream
from sessionizer.home.clock import DAY, HOUR, MINUTE, describe_duration, epoch_ms, moment_of, moment_text
from sessionizer.home.control_store import Store, reaching_records
from sessionizer.home.stream_home import StreamHome

NOTHING: Final = "–"
COLUMNS: Final = (
    "stream", "state", "health", "batch", "ev/s", "lag", "watermark (age)", "open", "emitted", "late", "quarantined",
    "last sign", "driver",
)  # fmt: skip
LAST_COLUMNS: Final = ("driver", "late", "emitted", "quarantined", "open", "batch", "watermark (age)", "ev/s")
"""Columns that a narrow terminal may lack, the least needed first. The others always stay."""
_LEFT: Final = frozenset({"stream", "state", "health", "driver"})
_COLOURS: Final = {
    State.RUNNING: "green", State.IDLE: "green", State.STARTING: "cyan", State.STOPPING: "cyan",
    State.STALLED: "yellow", State.FAILED: "red", State.VANISHED: "red",
}  # fmt: skip
_COLOURS_OF_HEALTH: Final = {
    HealthWord.HEALTHY: "green", HealthWord.WARNING: "cyan", HealthWord.UNKNOWN: "yellow",
    HealthWord.DEGRADED: "yellow", HealthWord.DOWN: "red",
}  # fmt: skip
_WIDTH_OF_A_FILE: Final = 200


@shares("as_json", "streams", "home")
def status(at: Options, stream: StreamOrAll = None) -> None:
    """Show the state of each stream, and a remedy for each problem."""
    folder, platform = at.specs, at.platform
    if stream:
        found = [one_stream(platform, folder, stream)]
    else:
        found = [view for view in all_streams(platform, folder) if view.is_listed]
    if at.as_json:
        typer.echo(json.dumps([view.to_json() for view in found], indent=1))
    else:
        _print_table(found, epoch_ms())
        typed = CommandLine.typed()
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
    """Print one row per stream. A narrow terminal gets fewer columns, and no heading or cell is cut."""
    rows = [COLUMNS, *(_row(view, now) for view in found)]
    widths = {name: max(map(cell_len, column)) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    width = table_width()
    shown = fitting_columns(widths, width)
    heading, *cells = padded([[row[COLUMNS.index(column)] for column in shown] for row in rows], _LEFT)
    for view, row in zip(found, cells, strict=True):
        colours = "red" if view.seen is None else _COLOURS.get(view.seen.state), _COLOURS_OF_HEALTH[view.health.word]
        row[1:3] = map(_coloured, row[1:3], colours)
    typer.echo("\n".join(["", *table_lines(heading, cells), ""]))
    hidden = [column for column in COLUMNS if column not in shown]
    if hidden:
        say(f"note: a terminal of {width} columns has no room for {', '.join(hidden)}")


def table_width() -> int:
    """Return the width of the table: that of the terminal, if there is one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH_OF_A_FILE


def _coloured(cell: str, colour: str | None) -> str:
    """Colour the cell for a terminal. ``typer.echo`` writes a file without colours."""
    return cell if os.environ.get("NO_COLOR") else typer.style(cell, fg=colour)


def fitting_columns(widths: Mapping[str, int], room: int) -> list[str]:
    """Return the columns for which a terminal of ``room`` has room, in order. Those not in ``LAST_COLUMNS`` stay."""
    shown = {column for column in widths if column not in LAST_COLUMNS}
    for column in reversed(LAST_COLUMNS):
        if sum(widths[each] + len(BETWEEN) for each in {*shown, column}) < room + len(BETWEEN) - 1:
            shown.add(column)
    return [column for column in widths if column in shown]


def _row(status: StreamView, now: int) -> list[str]:
    seen, judged = status.driver, [status.name, str(status.state), str(status.health.word)]
    if seen is None:
        return [*judged, *[NOTHING] * (len(COLUMNS) - len(judged))]
    age = NOTHING if seen.age_ms is None else f"{describe_duration(seen.age_ms)} ago"
    driver = f"{seen.lease.uid}{f' (pid {seen.lease.pid})' if seen.state.is_live else ''}" if seen.lease else NOTHING
    return [*judged, *_figures(seen, now), age, driver]


def _figures(seen: DriverStatus, now: int) -> list[str]:
    beat = seen.heartbeat
    if beat is None:
        return [NOTHING] * 8
    rate = beat.rows_per_second if seen.state is State.RUNNING else None
    counts = (beat.open_keys, beat.sessions_rows, beat.late, beat.quarantined)
    figures = [NOTHING if beat.batch_id is None else str(beat.batch_id), _number(rate), _number(beat.source_lag)]
    watermark = NOTHING if beat.watermark_ms is None else "drained"
    if beat.watermark_ms is not None and not beat.is_drained:
        age = describe_duration(now - beat.watermark_ms)
        watermark = f"{moment_text(beat.watermark_ms).removesuffix(' UTC')[len('2026-') :]} ({age})"
    return [*figures, watermark, *map(_number, counts)]


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


_COLUMNS: Final = ("time", "ev/s", "batches", "batch", *PHASES, "lag", "open", "state", "closed", "late", "refused")
_ROWS: Final = 60
"""Number of lines with figures, about."""
_UNITS: Final = {"m": MINUTE, "h": HOUR, "d": DAY}


@shares("as_json", "home")
def timeline(
    stream: Stream,
    at: Options,
    *,
    since: Annotated[str, typer.Option(help="How far back: 30m, 6h, 7d, or a moment in ISO 8601.")] = "6h",
) -> None:
    """Show what the stream did: rates, times, lag and state, with its starts, crashes, savepoints and commands."""
    where, now = StreamHome.of(at.platform, stream), epoch_ms()
    since_ms = since_when(since, now)
    with reaching_records(where.control):
        require_known_stream(where)
        found = read_history(where, since_ms, now)
    if at.as_json:
        samples = [sample.to_json() for sample in found.samples]
        marks = [mark.to_json() for mark in found.marks]
        typer.echo(json.dumps({"stream": stream, "since": since_ms, "now": now, "samples": samples, "marks": marks}))
        return
    every = bucket_ms(now - since_ms, _ROWS)
    rows = [_sample_row(sample, every) for sample in condense(found.samples, every)]
    told = [table_text(_COLUMNS, rows, left=("time",))] if rows else []
    for line in [*told, *map(_mark_line, found.marks)] or ["no history in this time"]:
        typer.echo(line)


def since_when(text: str, now: int) -> int:
    """Return the moment (epoch ms) that ``--since`` names, while history is kept. Raises InvalidSpec."""
    short = re.fullmatch(r"([1-9]\d{0,4})([mhd])", text.strip())
    if short is not None:
        return now - min(int(short[1]) * _UNITS[short[2]], KEPT_MS)
    return max(moment_of(text, "--since", "a time such as 30m, 6h or 7d, or "), now - KEPT_MS)


def _sample_row(sample: Sample, bucket_ms: int) -> list[str]:
    batches = max(sample.batches, 1)
    phases = [describe_duration(sample.phases.get(phase, 0) // batches) for phase in PHASES]
    return [
        moment_text(sample.at).removesuffix(" UTC"),
        f"{sample.rows * 1000 / bucket_ms:,.0f}",
        f"{sample.batches:,}",
        describe_duration(sample.batch_ms // batches),
        *phases,
        NOTHING if sample.lag_ms is None else describe_duration(sample.lag_ms),
        NOTHING if sample.open is None else f"{sample.open:,}",
        NOTHING if sample.state_bytes is None else size(sample.state_bytes),
        f"{sample.sessions:,}",
        f"{sample.late:,}",
        f"{sample.refused:,}",
    ]


def _mark_line(mark: Mark) -> str:
    facts = [
        str(mark.kind),
        mark.what,
        f"of {mark.savepoint}" if mark.savepoint else "",
        f"driver {mark.uid}" if mark.uid else "",
        f"lineage {mark.lineage}" if mark.lineage else "",
        f"batch {mark.batch_id}" if mark.batch_id is not None else "",
        f"by {mark.by}" if mark.by else "",
    ]
    text = f": {mark.text}" if mark.text else ""
    return f"{moment_text(mark.at)}  {' '.join(fact for fact in facts if fact)}{text}"
