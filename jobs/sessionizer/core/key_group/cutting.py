"""The cuts between sessions (docs/sessions.md, 7 and 8), on arrays of many keys at once.

The readable definition is ``sessionizer.core.definition.oracle``. This module does the same on columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sessionizer.core.definition.outcome import CloseReason
from sessionizer.core.definition.rules import NEVER_MS

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

REASONS = np.array(list(CloseReason), dtype=object)
_CLOSING, _MAX_EVENTS, _MAX_BYTES, _GAP, _MAX_DURATION = range(len(REASONS))


@dataclass(frozen=True, slots=True)
class OrderedEvents:
    """Columns of events in the order of ``ordering.session_order``: by key, and within a key in session order.

    ``max_events``, ``max_duration`` (ms) and ``max_bytes`` are the caps of a session that ends with the event,
    ``NEVER_MS`` for none. ``bytes_before`` is the size (bytes) of all events before each event, with the size of all
    as one more element. It is None if no cap needs it.
    """

    key: Int64s
    clock: Int64s
    closes: Bools
    timeout: Int64s
    max_events: Int64s
    max_duration: Int64s
    max_bytes: Int64s
    bytes_before: Int64s | None = None

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class Cuts:
    """Sessions as runs of rows: ``first`` to ``last`` inclusive, when each is due (epoch ms) and why it ends.

    ``reason`` is a position in ``REASONS``.
    """

    first: Int64s
    last: Int64s
    due: Int64s
    reason: NDArray[np.int8]

    @property
    def length(self) -> Int64s:
        """Number of events of each session."""
        return self.last - self.first + 1

    def final(self, final_by_ms: int) -> Bools:
        """Return which sessions can no longer change after all events up to ``final_by_ms`` (epoch ms) have come."""
        return self.due <= final_by_ms


def cut_sessions(events: OrderedEvents) -> Cuts:
    """Return all sessions of the events, finished or not."""
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
    first, last = _apply_caps(events, first, last)
    return _explain(events, first, last)


def _apply_caps(events: OrderedEvents, first: Int64s, last: Int64s) -> tuple[Int64s, Int64s]:
    """Split the few runs that exceed a cap. Each cut depends on the one before, which is why there is a loop."""
    exceeding = last - first >= events.max_events.min()
    exceeding |= events.clock[last] - events.clock[first] > events.max_duration.min()
    if events.bytes_before is not None:
        exceeding |= events.bytes_before[last] - events.bytes_before[first] >= events.max_bytes.min()
    if not exceeding.any():
        return first, last
    runs = zip(first[exceeding].tolist(), last[exceeding].tolist(), strict=True)
    cap_run = _cap_run if _are_alike(events) else _cap_run_event_by_event
    extra = [start for run in runs for start in cap_run(events, *run)]
    first = np.sort(np.concatenate([first, np.array(extra, np.int64)]))
    return first, np.append(first[1:], last[-1] + 1) - 1


def _are_alike(events: OrderedEvents) -> bool:
    """Whether all events have the same caps, which is so unless the rules were changed."""
    return all(bool((caps == caps[0]).all()) for caps in (events.max_events, events.max_duration, events.max_bytes))


def _cap_run(events: OrderedEvents, start: int, last: int) -> list[int]:
    """Return the first rows of the further sessions into which the caps split the run ``start..last``."""
    clock, bytes_before = events.clock, events.bytes_before
    max_events, max_duration, max_bytes = events.max_events[0], events.max_duration[0], events.max_bytes[0]
    starts: list[int] = []
    while True:
        limit = clock[start] + max_duration
        in_time = start + int(np.searchsorted(clock[start : last + 1], limit, side="right"))
        following = min(last + 1, start + int(max_events), in_time)
        if bytes_before is not None:
            following = min(following, int(np.searchsorted(bytes_before, bytes_before[start] + max_bytes)))
        if following > last:
            return starts
        starts.append(following)
        start = following


def _cap_run_event_by_event(events: OrderedEvents, start: int, last: int) -> list[int]:
    """Do the same as ``_cap_run`` if each event has its own caps."""
    starts: list[int] = []
    for row in range(start, last):
        full = row - start + 1 >= events.max_events[row]
        if events.bytes_before is not None:
            full |= events.bytes_before[row + 1] - events.bytes_before[start] >= events.max_bytes[row]
        if full or events.clock[row + 1] - events.clock[start] > events.max_duration[row]:
            start = row + 1
            starts.append(start)
    return starts


def _explain(events: OrderedEvents, first: Int64s, last: Int64s) -> Cuts:
    """Return the sessions with the reason why each ends and the instant when that is certain.

    The first reason that applies counts.
    """
    following = np.minimum(last + 1, len(events) - 1)
    has_next = (last + 1 < len(events)) & (events.key[following] == events.key[last])
    quiet_until = np.minimum(events.clock[last] + events.timeout[last], NEVER_MS)
    closing = events.closes[last]
    full = last - first + 1 >= events.max_events[last]
    heavy = np.zeros(len(first), np.bool_)
    if events.bytes_before is not None:
        heavy = events.bytes_before[last + 1] - events.bytes_before[first] >= events.max_bytes[last]
    gap = ~has_next | (events.clock[following] > quiet_until)
    conditions = [closing, full, heavy, gap]
    reason = np.select(conditions, [_CLOSING, _MAX_EVENTS, _MAX_BYTES, _GAP], _MAX_DURATION).astype(np.int8)
    at_last = events.clock[last]
    due = np.select(conditions, [at_last, at_last, at_last, quiet_until], events.clock[following])
    return Cuts(first, last, due, reason)
