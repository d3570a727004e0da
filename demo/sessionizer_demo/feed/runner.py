"""The run of a feed: scenario → ticks → sink, until the feed ends or is stopped."""

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
    """A folder ``path`` that gets files."""

    path: Path


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """A ``topic`` of the brokers at ``bootstrap_servers`` (``host:port,...``) that gets messages."""

    bootstrap_servers: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedOptions:
    """The options of a feed: scenario, target, bounds and pace.

    A paced feed (``is_paced``) runs in step with the wall clock, another one as fast as the sink takes it. ``tick_ms``
    is the time in one file. Raises InvalidSpec if it is not more than 0.
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
    """Run the feed to its end, or until SIGTERM, SIGINT or ``stop``, and return the counts of the rows sent.

    ``on_tick`` is called after each tick with the counts so far. Raises InvalidSpec, UnwritablePath or
    SourceUnreachable.
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
    """Set ``stop`` on SIGTERM and SIGINT while the block runs. Only the main thread can do so, others skip it."""
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
    """A sink that takes ticks until it is closed."""

    def write(self, tick: Tick) -> None:
        """Send the rows of ``tick``. After the return the caller may count them."""

    def close(self) -> None:
        """Wait until no row that was sent can be lost. Raises SourceUnreachable if a row was lost."""
