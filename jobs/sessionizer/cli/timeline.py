"""``sessionizer timeline``: what a stream did over the last hours or days, from its history."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sessionizer.cli.inspect.words import size, table_text
from sessionizer.cli.places import AsJson, Home, Stream, home_folder, require_known_stream
from sessionizer.control.history.files import KEPT_MS, History, read_history
from sessionizer.control.history.sample import PHASES, SAMPLE_MS, condense
from sessionizer.home.clock import DAY, HOUR, MINUTE, describe_duration, epoch_ms, moment_of, moment_text
from sessionizer.home.control_store import unreachable
from sessionizer.home.stream_home import StreamHome

if TYPE_CHECKING:
    from sessionizer.control.history.mark import Mark
    from sessionizer.control.history.sample import Sample

_COLUMNS: Final = ("time", "ev/s", "batches", "batch", *PHASES, "lag", "open", "state", "closed", "late", "refused")
_ROWS: Final = 60
"""Number of lines with figures, about."""
_UNITS: Final = {"m": MINUTE, "h": HOUR, "d": DAY}
_NOTHING: Final = "–"


def timeline(
    stream: Stream,
    *,
    since: Annotated[str, typer.Option(help="How far back: 30m, 6h, 7d, or a moment in ISO 8601.")] = "6h",
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Show what the stream did: rates, times, lag and state, with its starts, crashes, savepoints and commands."""
    where, now = StreamHome.of(home_folder(home), stream), epoch_ms()
    since_ms = since_when(since, now)
    try:
        require_known_stream(where)
        found = read_history(where, since_ms, now)
    except OSError as error:
        raise unreachable(where.control, error) from error
    if as_json:
        samples = [sample.to_json() for sample in found.samples]
        marks = [mark.to_json() for mark in found.marks]
        typer.echo(json.dumps({"stream": stream, "since": since_ms, "now": now, "samples": samples, "marks": marks}))
        return
    for line in _lines(found, _bucket_ms(now - since_ms)):
        typer.echo(line)


def since_when(text: str, now: int) -> int:
    """Return the moment (epoch ms) that ``--since`` names, at most as far back as history is kept.

    Raises InvalidSpec.
    """
    short = re.fullmatch(r"([1-9]\d{0,4})([mhd])", text.strip())
    if short is not None:
        return now - min(int(short[1]) * _UNITS[short[2]], KEPT_MS)
    return max(moment_of(text, "--since", "a time such as 30m, 6h or 7d, or "), now - KEPT_MS)


def _bucket_ms(span_ms: int) -> int:
    """Return the ms that one line stands for: whole minutes, so that about ``_ROWS`` lines come of it."""
    minutes = max(1, round(span_ms / _ROWS / SAMPLE_MS))
    return minutes * SAMPLE_MS


def _lines(found: History, bucket_ms: int) -> list[str]:
    if not found.samples and not found.marks:
        return ["no history in this time"]
    samples = condense(found.samples, bucket_ms)
    told = [table_text(_COLUMNS, [_row(sample, bucket_ms) for sample in samples], left=("time",))] if samples else []
    return told + [_mark_line(mark) for mark in found.marks]


def _row(sample: Sample, bucket_ms: int) -> list[str]:
    batches = max(sample.batches, 1)
    phases = [describe_duration(sample.phases.get(phase, 0) // batches) for phase in PHASES]
    return [
        moment_text(sample.at).removesuffix(" UTC"),
        f"{sample.rows * 1000 / bucket_ms:,.0f}",
        f"{sample.batches:,}",
        describe_duration(sample.batch_ms // batches),
        *phases,
        _NOTHING if sample.lag_ms is None else describe_duration(sample.lag_ms),
        _NOTHING if sample.open is None else f"{sample.open:,}",
        _NOTHING if sample.state_bytes is None else size(sample.state_bytes),
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
