"""The command line of the feed, ``sessionizer-feed``."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.errors import InvalidSpec
from sessionizer_demo.feed.rows.faults import DEFAULT_FAULT_RATES
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.runner import FeedOptions, FolderTarget, KafkaTarget, run_feed
from sessionizer_demo.feed.scenario import Bounds, Scenario, start_in_the_past
from sessionizer_demo.feed.traffic.day_curve import DayCurve

if TYPE_CHECKING:
    from sessionizer_demo.feed.tally import Tally

_PROGRESS_EVERY_S = 10.0


class Target(StrEnum):
    """The kind of sink that a feed writes to."""

    FOLDER = "folder"
    KAFKA = "kafka"


def feed(  # noqa: PLR0913 - one parameter per option
    *,
    to: Annotated[Target, typer.Option(help="Where the events go.")],
    stream: Annotated[str, typer.Option(help="What to play: clicks or access_log.")] = "clicks",
    path: Annotated[Path | None, typer.Option(help="The folder to fill (--to folder).")] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="host:port,... of the broker (--to kafka).")] = None,
    topic: Annotated[str | None, typer.Option(help="The topic (--to kafka); the stream's name if not given.")] = None,
    rate: Annotated[float, typer.Option(help="Events per second, on the average of a day.")] = 100.0,
    duration: Annotated[float | None, typer.Option(help="End after so many seconds of events.")] = None,
    events: Annotated[int | None, typer.Option(help="End after so many events.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed, other users.")] = 7,
    day: Annotated[float, typer.Option(help="Seconds that a day of the arrival curve lasts.")] = 1200.0,
    depth: Annotated[float, typer.Option(help="How far the night is below the average, 0 to 1.")] = 0.6,
    watermark_delay: Annotated[float, typer.Option(help="The stream's watermark delay in seconds.")] = 30.0,
    fault: Annotated[list[str] | None, typer.Option(help="kind=share of the rows, e.g. late_beyond=0.01.")] = None,
    clean: Annotated[bool, typer.Option("--clean", help="No faults but those given with --fault.")] = False,
    pace: Annotated[bool, typer.Option(help="In step with the clock; --no-pace: at once, and in the past.")] = True,
    tick: Annotated[float, typer.Option(help="Seconds of events in one file.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ground truth as JSON.")] = False,
) -> None:
    """Play realistic events, some of them faulty, and print at the end how many there were of each kind."""
    day_curve = DayCurve(day_seconds=day, depth=depth)
    bounds = Bounds(duration_s=duration, events=events)
    scenario = Scenario(
        start_ms=_start_ms(rate, day_curve, bounds, pace=pace),
        stream=stream,
        seed=seed,
        rate=rate,
        day=day_curve,
        watermark_delay_ms=int(watermark_delay * 1000),
        faults=fault_rates(fault or [], clean=clean),
    )
    options = FeedOptions(
        scenario=scenario,
        target=choose_target(to, path, bootstrap_servers, topic or stream),
        bounds=bounds,
        is_paced=pace,
        tick_ms=int(tick * 1000),
    )
    tally = run_feed(options, on_tick=_Progress())
    typer.echo(json.dumps(tally.as_dict()) if as_json else describe(tally))


def fault_rates(given: list[str], *, clean: bool) -> dict[RowKind, float]:
    """Return the default shares (none if ``clean``), changed by ``kind=share`` entries.

    Raises InvalidSpec if an entry has another form or an unknown kind.
    """
    rates = {} if clean else dict(DEFAULT_FAULT_RATES)
    for entry in given:
        kind, _, share = entry.partition("=")
        try:
            rates[RowKind(kind)] = float(share)
        except ValueError as error:
            kinds = ", ".join(kind for kind in RowKind if kind is not RowKind.NORMAL)
            raise InvalidSpec("feed.fault", entry, f"<kind>=<share of the rows>, kinds: {kinds}") from error
    return rates


def choose_target(
    to: Target, path: Path | None, bootstrap_servers: str | None, topic: str
) -> FolderTarget | KafkaTarget:
    """Return the target that the options name. Raises InvalidSpec if an option is missing."""
    if to is Target.FOLDER:
        if path is None:
            raise InvalidSpec("feed.path", None, "a folder, with --to folder")
        return FolderTarget(path)
    if bootstrap_servers is None:
        raise InvalidSpec("feed.bootstrap_servers", None, "host:port of a broker, with --to kafka")
    if find_spec("confluent_kafka") is None:
        install = "Run `pip install 'streaming-state[kafka]'` first, because the client of Kafka is not installed"
        raise InvalidSpec("feed.to", str(to), install)
    return KafkaTarget(bootstrap_servers, topic)


def describe(tally: Tally) -> str:
    """Return the ground truth as a few aligned lines, most frequent kind first."""
    lines = [f"{tally.rows:>12,}  rows of {len(tally.users):,} users"]
    for kind, count in tally.by_kind.most_common():
        lines.append(f"{count:>12,}  {kind:<26} → {kind.destination}")
    return "\n".join(lines)


def _start_ms(rate: float, day: DayCurve, bounds: Bounds, *, pace: bool) -> int:
    now_ms = time.time() * 1000
    return int(now_ms) if pace else start_in_the_past(now_ms, rate * day.quietest, bounds)


class _Progress:
    """Progress of a feed, printed as a line on standard error every ten seconds."""

    def __init__(self) -> None:
        self._said_at, self._said_rows = time.monotonic(), 0

    def __call__(self, tally: Tally) -> None:
        passed_s = time.monotonic() - self._said_at
        if passed_s < _PROGRESS_EVERY_S:
            return
        pace = (tally.rows - self._said_rows) / passed_s
        typer.echo(f"{tally.rows:,} rows, {pace:,.0f}/s", err=True)
        self._said_at, self._said_rows = time.monotonic(), tally.rows
