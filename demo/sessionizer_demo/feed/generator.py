"""The feed as an endless iterator over simulated time. This module does not wait, write or read the clock."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, takewhile
from random import Random
from typing import TYPE_CHECKING

from sessionizer_demo.feed.rows.faults import FaultPicker, RecentEvents, is_duplicate, spoil_event
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.traffic.crowd import Crowd, NeverEndingUser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer_demo.feed.scenario import Bounds, Scenario
    from sessionizer_demo.feed.traffic.events import ClickEvent


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the feed, sent at ``at_ms`` (epoch ms).

    ``event`` is the event that the row holds, or would hold without its fault of form. ``key`` is the Kafka key: the
    user id, or None if the row has lost it.
    """

    at_ms: int
    kind: RowKind
    key: str | None
    value: bytes
    event: ClickEvent


def generate(scenario: Scenario) -> Iterator[Row]:
    """Yield the rows of ``scenario``, in the order they are sent, without end."""
    generator = _Generator(scenario)
    while True:
        yield generator.next_row()


def generate_within(scenario: Scenario, bounds: Bounds) -> Iterator[Row]:
    """Return the rows of ``scenario`` within ``bounds``."""
    rows = generate(scenario)
    if bounds.duration_s is not None:
        end_ms = scenario.start_ms + bounds.duration_s * 1000
        rows = takewhile(lambda row: row.at_ms < end_ms, rows)
    return rows if bounds.events is None else islice(rows, bounds.events)


class _Generator:
    def __init__(self, scenario: Scenario) -> None:
        # The seed includes the start, so that a restarted feed does not repeat the event ids of its last run.
        self._rng = Random(f"{scenario.seed}/{scenario.start_ms}")  # noqa: S311  a demo, not a secret
        self._scenario = scenario
        self._crowd = Crowd(scenario.clients, self._rng)
        self._faults = FaultPicker(scenario.possible_faults, self._rng)
        self._recent = RecentEvents(scenario.watermark_delay_ms)
        self._never_ending = self._invite_never_ending_user()
        self._slot_ms = float(scenario.start_ms)

    def _invite_never_ending_user(self) -> NeverEndingUser | None:
        if not self._scenario.never_ending_user:
            return None
        return NeverEndingUser(self._scenario.clients[0], self._scenario.start_ms, self._rng)

    def next_row(self) -> Row:
        # This user comes on top of the rate, because a slot of a slow feed could come later than the timeout.
        if self._never_ending and self._never_ending.due_ms <= self._slot_ms:
            return self._send(int(self._never_ending.due_ms), self._never_ending.click(), RowKind.NORMAL)
        now_ms = self._slot_ms
        elapsed_ms = now_ms - self._scenario.start_ms
        per_ms = self._scenario.rate * self._scenario.day.busyness(elapsed_ms) / 1000
        self._slot_ms += self._rng.expovariate(per_ms)
        return self._row_of_crowd(now_ms)

    def _row_of_crowd(self, now_ms: float) -> Row:
        kind = self._faults.pick()
        if is_duplicate(kind):
            repeated = self._recent.take(now_ms, self._rng)
            if repeated:
                return self._send(int(now_ms), repeated, kind)
            kind = RowKind.NORMAL
        event = self._crowd.click(now_ms)
        if kind is RowKind.NORMAL:
            self._recent.remember(event)
        return self._send(int(now_ms), event, kind)

    def _send(self, at_ms: int, event: ClickEvent, kind: RowKind) -> Row:
        told = spoil_event(event, kind, self._scenario.watermark_delay_ms, self._rng)
        value = self._scenario.row_format.write(told, kind, self._rng)
        return Row(at_ms, kind, None if kind is RowKind.NULL_KEY else event.user_id, value, told)
