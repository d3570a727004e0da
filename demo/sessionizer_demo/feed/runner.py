"""A feed from its first row to its last: scenario → ticks → sink, until it ends or is told to."""

from __future__ import annotations

import signal
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sessionizer.errors import InvalidSpec
from sessionizer_demo.feed.generator import generate_within
from sessionizer_demo.feed.pacing import StopFlag, WallClock, paced, ticks, unpaced
from sessionizer_demo.feed.scenario import Bounds
from sessionizer_demo.feed.sinks.folder_sink import FolderSink
from sessionizer_demo.feed.sinks.kafka_sink import KafkaSink
from sessionizer_demo.feed.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from sessionizer_demo.feed.pacing import Clock, Tick
    from sessionizer_demo.feed.scenario import Scenario


@dataclass(frozen=True, slots=True)
class FolderTarget:
    """Write files into ``path``."""

    path: Path


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """Send messages to ``topic`` of the brokers at ``bootstrap_servers`` (``host:port,...``)."""

    bootstrap_servers: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedOptions:
    """A feed to run: what it plays, where to, how long and how fast.

    ``is_paced``: in step with the wall clock, else as fast as the sink takes it. ``tick_ms`` is how much time one
    file holds.
    """

    scenario: Scenario
    target: FolderTarget | KafkaTarget
    bounds: Bounds = field(default_factory=Bounds)
    is_paced: bool = True
    tick_ms: int = 1000

    def __post_init__(self) -> None:
        if self.tick_ms <= 0:
            raise InvalidSpec("feed.tick_ms", self.tick_ms, "more than 0 milliseconds")


def run_feed(
    options: FeedOptions,
    *,
    clock: Clock | None = None,
    stop: StopFlag | None = None,
    on_tick: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Run the feed to its end, or until SIGTERM, SIGINT or ``stop``; the ground truth of what was sent.

    ``on_tick`` is called after each tick with the counts so far. Raises UnwritablePath or SourceUnreachable.
    """
    stop = stop or StopFlag()
    tally = Tally()
    with _stopped_by_signals(stop), closing(_open_sink(options)) as sink:
        for tick in _ticks(options, clock or WallClock(), stop):
            sink.write(tick)
            tally.add(tick.rows)
            on_tick(tally)
    return tally


def _ticks(options: FeedOptions, clock: Clock, stop: StopFlag) -> Iterator[Tick]:
    rows = generate_within(options.scenario, options.bounds)
    beats = ticks(rows, options.scenario.start_ms, options.tick_ms)
    return paced(beats, clock, stop) if options.is_paced else unpaced(beats, stop)


def _open_sink(options: FeedOptions) -> FeedSink:
    match options.target:
        case FolderTarget(path):
            scenario = options.scenario
            run = f"{scenario.stream}-{scenario.start_ms}-{scenario.seed}"
            return FolderSink(path, run, scenario.row_format.suffix)
        case KafkaTarget(bootstrap_servers, topic):
            return KafkaSink(bootstrap_servers, topic)


@contextmanager
def _stopped_by_signals(stop: StopFlag) -> Iterator[None]:
    """SIGTERM and SIGINT set ``stop`` while the block runs; elsewhere than in the main thread they cannot be had."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class FeedSink(Protocol):
    """Takes ticks until it is closed."""

    def write(self, tick: Tick) -> None:
        """Send the rows of ``tick``; when this returns they may be counted."""

    def close(self) -> None:
        """Nothing sent may be lost after this. Raises SourceUnreachable if something was."""
