"""Where sessions begin and end: design §3 points 4 to 6 on arrays of many keys at once.

The readable definition is ``sessionizer.core.oracle``; this is the same on columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sessionizer.core.reasons import CloseReason
from sessionizer.core.rules import NEVER_MS

if TYPE_CHECKING:
    from sessionizer.core.rules import Rules

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

REASONS = np.array(
    [
        CloseReason.CLOSING_EVENT,
        CloseReason.MAX_EVENTS,
        CloseReason.MAX_BYTES,
        CloseReason.GAP,
        CloseReason.MAX_DURATION,
    ],
    dtype=object,
)
_CLOSING, _MAX_EVENTS, _MAX_BYTES, _GAP, _MAX_DURATION = range(5)


@dataclass(frozen=True, slots=True)
class OrderedEvents:
    """Columns of events in the order of ``ordering.session_order``: of one key together, then as the session runs.

    ``bytes_before``: the sizes of all events before each, one more than there are events; None where no cap needs them.
    """

    key: Int64s
    clock: Int64s
    closes: Bools
    timeout: Int64s
    bytes_before: Int64s | None = None

    def __len__(self) -> int:
        return len(self.key)


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
    first, last = _apply_caps(events, first, last, rules)
    return _explain(events, first, last, rules)


def _apply_caps(events: OrderedEvents, first: Int64s, last: Int64s, rules: Rules) -> tuple[Int64s, Int64s]:
    """Split the few runs that exceed a cap; where the next cut falls depends on the one before, hence the loop."""
    exceeding = np.zeros(len(first), np.bool_)
    if rules.max_events is not None:
        exceeding |= last - first >= rules.max_events
    if rules.max_duration_ms is not None:
        exceeding |= events.clock[last] - events.clock[first] > rules.max_duration_ms
    if rules.max_bytes is not None and events.bytes_before is not None:
        exceeding |= events.bytes_before[last] - events.bytes_before[first] >= rules.max_bytes
    if not exceeding.any():
        return first, last
    runs = zip(first[exceeding].tolist(), last[exceeding].tolist(), strict=True)
    extra = [start for run in runs for start in _cap_run(events, *run, rules)]
    first = np.sort(np.concatenate([first, np.array(extra, np.int64)]))
    return first, np.append(first[1:], last[-1] + 1) - 1


def _cap_run(events: OrderedEvents, start: int, last: int, rules: Rules) -> list[int]:
    """First rows of the further sessions that the caps make of the run ``start..last``."""
    clock, bytes_before = events.clock, events.bytes_before
    starts: list[int] = []
    while True:
        following = last + 1
        if rules.max_events is not None:
            following = min(following, start + rules.max_events)
        if rules.max_duration_ms is not None:
            limit = clock[start] + rules.max_duration_ms
            following = min(following, start + int(np.searchsorted(clock[start : last + 1], limit, side="right")))
        if rules.max_bytes is not None and bytes_before is not None:
            following = min(following, int(np.searchsorted(bytes_before, bytes_before[start] + rules.max_bytes)))
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
    heavy = np.zeros(len(first), np.bool_)
    if rules.max_bytes is not None and events.bytes_before is not None:
        heavy = events.bytes_before[last + 1] - events.bytes_before[first] >= rules.max_bytes
    gap = ~has_next | (events.clock[following] > quiet_until)
    conditions = [closing, full, heavy, gap]
    reason = np.select(conditions, [_CLOSING, _MAX_EVENTS, _MAX_BYTES, _GAP], _MAX_DURATION).astype(np.int8)
    at_last = events.clock[last]
    due = np.select(conditions, [at_last, at_last, at_last, quiet_until], events.clock[following])
    return Cuts(first, last, due, reason)
