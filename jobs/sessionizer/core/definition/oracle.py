"""The definition of a session.

Every other path (micro-batches, Arrow, Spark SQL, a restored state) must equal it. It is written to be read, in plain
Python, with one rule per function. Only tests and tools run it.

A batch is taken in four steps, after the migration of the open events, if it brings one (``_migrate``):

1. its changes of timeouts come into force (``_timeout_in_force``);
2. late events and duplicates are put aside (``_admit``);
3. the other events are cut into stretches (``cut``);
4. stretches that can no longer change are closed as sessions (``_close``).

The other stretches are open: a later batch may add to them or split them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from sessionizer.core.definition.event import AdmittedEvent, Batch, Event, session_id
from sessionizer.core.definition.outcome import CloseReason, Outcome, Session
from sessionizer.core.definition.plain_values import order_of
from sessionizer.core.definition.rules import NEVER_MS, Clock, SessionRules


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
    caps = last.caps
    if last.event.closes:
        return CloseReason.CLOSING_EVENT, last.clock_ms
    if caps.max_events is not None and len(current) >= caps.max_events:
        return CloseReason.MAX_EVENTS, last.clock_ms
    if caps.max_bytes is not None and sum(admitted.event.size for admitted in current) >= caps.max_bytes:
        return CloseReason.MAX_BYTES, last.clock_ms
    if following is None or following.clock_ms > last.deadline_ms:
        return CloseReason.GAP, last.deadline_ms
    if caps.max_duration_ms is not None and following.clock_ms - first.clock_ms > caps.max_duration_ms:
        return CloseReason.MAX_DURATION, following.clock_ms
    return None


_NO_THRESHOLD_MS: Final = -NEVER_MS
"""A threshold at or before which no event is."""


def sessionize(batches: Iterable[Batch], rules: SessionRules) -> Outcome:
    """Return the outcome of ``batches``, in this order, under ``rules`` until a batch brings others.

    New rules do not change earlier decisions: the watermark never goes back, and each event keeps the timeout and the
    caps that were in force when it was admitted.
    """
    outcome = Outcome()
    changed_timeouts_ms: dict[str, int] = {}
    seen = _Seen()
    for batch in batches:
        rules = batch.rules or rules
        changed_timeouts_ms.update(batch.timeout_changes)
        client_timeouts_ms = {**rules.client_timeouts_ms, **changed_timeouts_ms}
        seen.floor_ms = max(seen.floor_ms, batch.floor_ms or 0)
        bounds = _bounds(batch, seen, rules)
        if batch.migrate is not None:
            _migrate(batch.migrate, outcome)
        arrivals = [_arrival(event, batch, client_timeouts_ms, rules) for event in batch.events]
        _admit(arrivals, bounds.late_by_ms, outcome)
        _close(bounds.final_by_ms, outcome)
        shown_ms = max((_time_shown(event, batch) for event in batch.events), default=0)
        seen.watermark_ms = max(seen.watermark_ms, shown_ms - rules.watermark_delay_ms)
    return outcome


# How far the stream has come


@dataclass(slots=True)
class _Seen:
    """The watermark from the events of all earlier batches, and the highest floor up to this batch.

    Each event counts with the watermark delay of its own batch: a longer delay later does not move the watermark back.
    """

    watermark_ms: int = 0
    floor_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The two thresholds of a batch.

    An event at or before ``late_by_ms`` is late. A session due at or before ``final_by_ms`` is final.
    """

    late_by_ms: int
    final_by_ms: int


def _bounds(batch: Batch, seen: _Seen, rules: SessionRules) -> _Bounds:
    """Return the bounds of a batch: in event time both are the watermark.

    On an arrival clock no event is late, sessions are final up to the batch's own moment, and a floor counts only if
    it drains.
    """
    if rules.clock is Clock.EVENT_TIME:
        watermark_ms = max(seen.watermark_ms, seen.floor_ms)
        return _Bounds(late_by_ms=watermark_ms, final_by_ms=watermark_ms)
    return _Bounds(
        late_by_ms=batch.arrived_at_ms - 1,
        final_by_ms=NEVER_MS if batch.floor_ms == NEVER_MS else batch.arrived_at_ms,
    )


def _time_shown(event: Event, batch: Batch) -> int:
    """Return the event time that an event proves, at most the clock of its batch.

    So a client whose clock is ahead does not make the events of other clients late. Its own sessions keep the times
    of its events.
    """
    return min(event.event_time_ms or 0, batch.arrived_at_ms)


# What an event brings: its place on the clock, and its timeout


def _arrival(event: Event, batch: Batch, client_timeouts_ms: Mapping[str, int], rules: SessionRules) -> AdmittedEvent:
    """Return the event as ``batch`` would admit it."""
    on_its_own_clock = rules.clock is Clock.EVENT_TIME
    return AdmittedEvent(
        event=event,
        clock_ms=(event.event_time_ms or 0) if on_its_own_clock else batch.arrived_at_ms,
        timeout_ms=_timeout_in_force(event, client_timeouts_ms, rules),
        caps=rules.caps,
    )


def _timeout_in_force(event: Event, client_timeouts_ms: Mapping[str, int], rules: SessionRules) -> int:
    """Return the event's own timeout (ms), else its client's present one, else the stream's, at most ``NEVER_MS``."""
    if rules.clock is Clock.NONE:
        return NEVER_MS
    if event.timeout_ms is not None:
        return min(event.timeout_ms, NEVER_MS)
    if event.client is None:
        return rules.gap_timeout_ms
    return min(client_timeouts_ms.get(event.client, rules.gap_timeout_ms), NEVER_MS)


def _canonical_order(arrival: AdmittedEvent) -> tuple[Hashable, ...]:
    """Return the sort key by which a batch's events of one key are taken, nulls first.

    The order of arrival does not count. The key extends ``order_in_key``, because two events of one id may differ in
    body, or in timeout alone.
    """
    event = arrival.event
    return (
        *order_in_key(arrival),
        _nulls_first(event.event_time_ms),
        _nulls_first(event.client),
        tuple(order_of(value) for _, value in sorted(event.named_payload.items())),
        arrival.timeout_ms,
        # alike within a batch, but not among migrated events
        *map(_nulls_first, arrival.caps),
    )


def _nulls_first(value: Hashable) -> tuple[bool, Hashable]:
    return (value is not None, value)


# Which events count


def _admit(arrivals: Iterable[AdmittedEvent], late_by_ms: int, outcome: Outcome) -> None:
    """Put late events and duplicates aside, and add the others to the open events of ``outcome``."""
    open_by_key = _group_by_key(outcome.open_events)
    for key, arrivals_of_key in sorted(_group_by_key(arrivals).items()):
        known = _events_by_id(open_by_key[key], late_by_ms)
        for arrival in sorted(arrivals_of_key, key=_canonical_order):
            event = arrival.event
            if arrival.clock_ms <= late_by_ms:
                outcome.late.append(event)
            elif event.event_id not in known:
                known[event.event_id] = event
                outcome.open_events.append(arrival)
            elif event.repeats(known[event.event_id]):
                outcome.duplicates_dropped += 1
            else:
                outcome.conflicting.append(event)


def _events_by_id(open_events: Iterable[AdmittedEvent], late_by_ms: int) -> dict[str, Event]:
    """Return the events that duplicates of a key are compared with, by id.

    They are the events of its sessions that are due after ``late_by_ms``.
    """
    return {
        admitted.event.event_id: admitted.event
        for stretch in cut(open_events)
        if stretch.due_ms > late_by_ms
        for admitted in stretch.events
    }


def _migrate(migrate: Callable[[AdmittedEvent], AdmittedEvent | None], outcome: Outcome) -> None:
    """Replace the open events by their migrated ones, as if one batch had brought all of them.

    Events of two keys may get one key. If they have one id, the first stays, and the others are duplicates.
    """
    migrated = [after for after in map(migrate, outcome.open_events) if after is not None]
    outcome.open_events = []
    _admit(migrated, _NO_THRESHOLD_MS, outcome)


# Which sessions are final


def _close(final_by_ms: int, outcome: Outcome) -> None:
    """Move the sessions due by ``final_by_ms`` from the open events to the closed sessions of ``outcome``."""
    still_open: list[AdmittedEvent] = []
    for key, events in sorted(_group_by_key(outcome.open_events).items()):
        for stretch in cut(events):
            if stretch.due_ms <= final_by_ms:
                outcome.closed.append(_session(key, stretch))
            else:
                still_open.extend(stretch.events)
    outcome.open_events = still_open
    outcome.watermark_ms = final_by_ms


def _session(key: str, stretch: Stretch) -> Session:
    first, last = stretch.events[0], stretch.events[-1]
    return Session(
        session_id=session_id(key, first.clock_ms, first.event.event_id),
        key=key,
        client=first.event.client,
        started_at_ms=first.clock_ms,
        ended_at_ms=last.clock_ms,
        event_count=len(stretch.events),
        close_reason=stretch.close_reason,
        events=tuple(admitted.event for admitted in stretch.events),
    )


def _group_by_key(events: Iterable[AdmittedEvent]) -> defaultdict[str, list[AdmittedEvent]]:
    grouped: defaultdict[str, list[AdmittedEvent]] = defaultdict(list)
    for admitted in events:
        grouped[admitted.event.key].append(admitted)
    return grouped
