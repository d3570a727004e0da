"""The feed of a soak: clicks with faults, whose outcome is the same however the stream forms its batches.

Rows that a batch's order would decide are left out: two bodies of one event, and late rows before the first watermark.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from sessionizer.core.definition.event import Batch
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.errors import SessionizerError
from sessionizer.spark.query.assembly import rules_of
from sessionizer_demo.feed.generator import Row, generate
from sessionizer_demo.feed.pacing import StopFlag, Tick, WallClock, paced, ticks
from sessionizer_demo.feed.rows.faults import DEFAULT_FAULT_RATES
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.scenario import Scenario
from sessionizer_demo.feed.traffic.day_curve import DayCurve
from support.expected.landed import as_landed, event_of, is_valid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessionizer.stream_spec.document.stream import StreamSpec
    from support.expected.landed import Landed

FILE_S: Final = 5
WATERMARK_DELAY_MS: Final = 10_000
MOST_FILES_OF_A_BATCH: Final = 8
"""A late row is a minute later than the delay, so it is late in every batch that spans less."""
HEAVY_SHARE: Final = 0.1
HEAVY_USER: Final = "heavy"
"""The user of that share of the normal rows, whose session only a cap ends."""
_FIRST_LATE_MS: Final = 120_000
"""Time (ms) from the start before which no row is late: a stream has no watermark in its first batch."""
_TOO_LATE: Final = frozenset({RowKind.LATE_BEYOND, RowKind.SECONDS_FOR_MILLISECONDS})


class Sink(Protocol):
    """A folder or a topic."""

    def write(self, tick: Tick) -> None:
        """Write the rows of ``tick``."""


@dataclass(slots=True)
class SoakFeed:
    """The feed of ``rate`` events a second from ``start_ms`` on. ``files``: the number of ticks that were written."""

    sink: Sink
    start_ms: int
    seed: int
    rate: float
    files: int = 0

    def write(self, stop: StopFlag) -> None:
        """Write each tick once its time has passed, again while it fails (a full disk), until ``stop`` is set."""
        for tick in paced(self.ticks(), WallClock(), stop):
            while not stop.is_set:
                with suppress(OSError, SessionizerError):
                    self.sink.write(tick)
                    self.files += 1
                    break
                time.sleep(1)

    def ticks(self) -> Iterator[Tick]:
        """Yield the rows of each file or send, without end."""
        return ticks(self._rows(), self.start_ms, FILE_S * 1000)

    def written(self) -> Iterator[Tick]:
        """Yield the rows of each file that was written."""
        return (tick for tick, _ in zip(self.ticks(), range(self.files), strict=False))

    def expected(self, spec: StreamSpec) -> Landed:
        """Return what the definition makes of the written files, all sessions closed.

        It gets all events that are not late in one batch, because a batch a file takes it hours.
        """
        rows = [row for tick in self.written() for row in tick.rows]
        valid = [row for row in rows if is_valid(row)]
        in_time, late = ([row for row in valid if (row.kind in _TOO_LATE) is is_late] for is_late in (False, True))
        return as_landed(sessionize(self.batches(in_time, late), rules_of(spec)), rows)

    def batches(self, *parts: Iterable[Row]) -> list[Batch]:
        """Return a batch of each part, and one that drains."""
        ended_ms = self.start_ms + self.files * FILE_S * 1000
        events = [*(tuple(event_of(row.event) for row in part) for part in parts), ()]
        floors = [*(None for _ in parts), NEVER_MS]
        return [
            Batch(events=each, arrived_at_ms=ended_ms + number, floor_ms=floor)
            for number, (each, floor) in enumerate(zip(events, floors, strict=True))
        ]

    def _rows(self) -> Iterator[Row]:
        faults = {**DEFAULT_FAULT_RATES, RowKind.CONFLICTING_DUPLICATE: 0.0}
        scenario = Scenario(
            start_ms=self.start_ms,
            seed=self.seed,
            rate=self.rate,
            watermark_delay_ms=WATERMARK_DELAY_MS,
            faults=faults,
            day=DayCurve(day_seconds=600, depth=0.3),
        )
        chance = Random(self.seed)  # noqa: S311  a feed, not a secret
        for row in generate(scenario):
            if row.kind in _TOO_LATE and row.at_ms < self.start_ms + _FIRST_LATE_MS:
                continue
            if row.kind is RowKind.NORMAL and not row.event.closes and chance.random() < HEAVY_SHARE:
                event = replace(row.event, user_id=HEAVY_USER)
                value = scenario.row_format.write(event, row.kind, chance)
                yield replace(row, key=HEAVY_USER, event=event, value=value)
            else:
                yield row
