"""Where sessions begin and end: design §3 points 4 to 6 on arrays of many keys at once.

The readable definition is ``sessionizer.core.oracle``; this is the same on columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sessionizer.core.reasons import CloseReason
from sessionizer.core.rules import NEVER_MS

if TYPE_CHECKING:
    from sessionizer.core.rules import Rules

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

REASONS = np.array(
    [CloseReason.CLOSING_EVENT, CloseReason.MAX_EVENTS, CloseReason.GAP, CloseReason.MAX_DURATION],
    dtype=object,
)
_CLOSING, _MAX_EVENTS, _GAP, _MAX_DURATION = range(4)


@dataclass(frozen=True, slots=True)
class OrderedEvents:
    """Columns of events in the order of ``ordering.session_order``: of one key together, then as the session runs."""

    key: Int64s
    clock: Int64s
    closes: Bools
    timeout: Int64s

    def __len__(self) -> int:
        return len(self.key)

    def part(self, index: NDArray[Any]) -> OrderedEvents:
        """The rows at ``index`` (a mask or positions, ascending)."""
        return OrderedEvents(self.key[index], self.clock[index], self.closes[index], self.timeout[index])


@dataclass(frozen=True, slots=True)
class Cuts:
    """Sessions as runs of rows: ``first`` to ``last`` inclusive, when each is due (epoch ms) and why it ends."""

    first: Int64s
    last: Int64s
    due: Int64s
    reason: NDArray[np.int8]

    @property
    def length(self) -> Int64s:
        """Events per session."""
        return self.last - self.first + 1

    def final(self, final_by_ms: int) -> Bools:
        """Which sessions can no longer change once everything up to ``final_by_ms`` has been seen."""
        return self.due <= final_by_ms


def cut_sessions(events: OrderedEvents, rules: Rules) -> Cuts:
    """All sessions of the events, finished or not."""
    if not len(events):
        nothing = np.empty(0, np.int64)
        return Cuts(nothing, nothing, nothing, np.empty(0, np.int8))
    same_key = events.key[1:] == events.key[:-1]
    beyond_gap = events.clock[1:] > events.clock[:-1] + events.timeout[:-1]
    begins = np.empty(len(events), np.bool_)
    begins[0] = True
    begins[1:] = ~same_key | events.closes[:-1] | beyond_gap
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(events)) - 1
    first, last = _apply_caps(events.clock, first, last, rules)
    return _explain(events, first, last, rules)


def _apply_caps(clock: Int64s, first: Int64s, last: Int64s, rules: Rules) -> tuple[Int64s, Int64s]:
    """Split the few runs that exceed a cap; where the next cut falls depends on the one before, hence the loop."""
    exceeding = np.zeros(len(first), np.bool_)
    if rules.max_events is not None:
        exceeding |= last - first >= rules.max_events
    if rules.max_duration_ms is not None:
        exceeding |= clock[last] - clock[first] > rules.max_duration_ms
    if not exceeding.any():
        return first, last
    runs = zip(first[exceeding].tolist(), last[exceeding].tolist(), strict=True)
    extra = [start for run in runs for start in _cap_run(clock, *run, rules)]
    first = np.sort(np.concatenate([first, np.array(extra, np.int64)]))
    return first, np.append(first[1:], last[-1] + 1) - 1


def _cap_run(clock: Int64s, start: int, last: int, rules: Rules) -> list[int]:
    """First rows of the further sessions that the caps make of the run ``start..last``."""
    starts: list[int] = []
    while True:
        following = last + 1
        if rules.max_events is not None:
            following = min(following, start + rules.max_events)
        if rules.max_duration_ms is not None:
            limit = clock[start] + rules.max_duration_ms
            following = min(following, start + int(np.searchsorted(clock[start : last + 1], limit, side="right")))
        if following > last:
            return starts
        starts.append(following)
        start = following


def _explain(events: OrderedEvents, first: Int64s, last: Int64s, rules: Rules) -> Cuts:
    """Why each session ends and when that is certain; the first reason that applies wins."""
    following = np.minimum(last + 1, len(events) - 1)
    has_next = (last + 1 < len(events)) & (events.key[following] == events.key[last])
    quiet_until = np.minimum(events.clock[last] + events.timeout[last], NEVER_MS)
    closing = events.closes[last]
    full = np.zeros(len(first), np.bool_) if rules.max_events is None else last - first + 1 >= rules.max_events
    gap = ~has_next | (events.clock[following] > quiet_until)
    conditions = [closing, full, gap]
    reason = np.select(conditions, [_CLOSING, _MAX_EVENTS, _GAP], _MAX_DURATION).astype(np.int8)
    at_last = events.clock[last]
    due = np.select(conditions, [at_last, at_last, quiet_until], events.clock[following])
    return Cuts(first, last, due, reason)
