"""The part of the definition (``oracle``) that cuts one key's events into sessions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from sessionizer.core.definition.outcome import CloseReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sessionizer.core.definition.event import AdmittedEvent


@dataclass(frozen=True, slots=True)
class Stretch:
    """The events between two cuts, by the events known so far.

    After the stream's clock has reached ``due_ms``, no later event can change it.
    """

    events: tuple[AdmittedEvent, ...]
    close_reason: CloseReason
    due_ms: int


def order_in_key(admitted: AdmittedEvent) -> tuple[int, int, bool, str]:
    """Return the sort key of a key's events: clock, event time, closing events last, then id."""
    event = admitted.event
    return (admitted.clock_ms, event.event_time_ms or 0, event.closes, event.event_id)


def cut(events: Iterable[AdmittedEvent]) -> Iterator[Stretch]:
    """Yield the stretches of one key's ``events``, in order. The last may be unfinished: it is due when its gap is."""
    ordered = sorted(events, key=order_in_key)
    current: list[AdmittedEvent] = []
    for admitted, following in zip_longest(ordered, ordered[1:]):
        current.append(admitted)
        if ending := _cut_after(current, following):
            yield Stretch(tuple(current), *ending)
            current = []


def _cut_after(current: Sequence[AdmittedEvent], following: AdmittedEvent | None) -> tuple[CloseReason, int] | None:
    """Return why a session ends between ``current`` and ``following``, and when that is certain (ms).

    Return None if the session goes on.
    """
    first, last = current[0], current[-1]
    if last.event.closes:
        return CloseReason.CLOSING_EVENT, last.clock_ms
    if last.max_events is not None and len(current) >= last.max_events:
        return CloseReason.MAX_EVENTS, last.clock_ms
    if last.max_bytes is not None and sum(admitted.event.size for admitted in current) >= last.max_bytes:
        return CloseReason.MAX_BYTES, last.clock_ms
    if following is None or following.clock_ms > last.deadline_ms:
        return CloseReason.GAP, last.deadline_ms
    if last.max_duration_ms is not None and following.clock_ms - first.clock_ms > last.max_duration_ms:
        return CloseReason.MAX_DURATION, following.clock_ms
    return None
