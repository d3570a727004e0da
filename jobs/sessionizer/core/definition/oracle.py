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


def sessionize(batches: Iterable[Batch], rules: SessionRules) -> Outcome:
    """Return the outcome of ``batches``, in this order, under ``rules`` until a batch brings others.

    New rules do not change earlier decisions: the watermark never goes back, and each event keeps the timeout and the
    caps that were in force when it was admitted.
    """
    outcome = Outcome()
    changed_timeouts_ms: dict[str, int] = {}
    watermark_ms = floor_ms = 0
    for batch in batches:
        rules = batch.rules or rules
        changed_timeouts_ms.update(batch.timeout_changes)
        client_timeouts_ms = {**rules.client_timeouts_ms, **changed_timeouts_ms}
        floor_ms = max(floor_ms, batch.floor_ms or 0)
        late_by_ms, final_by_ms = _bounds(batch, max(watermark_ms, floor_ms), rules.clock)
        if batch.migrate is not None:
            _migrate(batch.migrate, outcome)
        arrivals = [
            AdmittedEvent(
                event,
                (event.event_time_ms or 0) if rules.clock is Clock.EVENT_TIME else batch.arrived_at_ms,
                _timeout_in_force(event, client_timeouts_ms, rules),
                rules.caps,
            )
            for event in batch.events
        ]
        _admit(arrivals, late_by_ms, outcome)
        _close(final_by_ms, outcome)
        # An event proves at most the clock of its batch: a client whose clock is ahead makes no others late. It counts
        # with the delay of its own batch: a longer delay later does not move the watermark back.
        shown_ms = max((min(event.event_time_ms or 0, batch.arrived_at_ms) for event in batch.events), default=0)
        watermark_ms = max(watermark_ms, shown_ms - rules.watermark_delay_ms)
    return outcome


def _bounds(batch: Batch, watermark_ms: int, clock: Clock) -> tuple[int, int]:
    """Return the moments at or before which an event is late, and a due session final. In event time: the watermark.

    On an arrival clock no event is late, sessions are final up to the batch's own moment, and a floor counts only if
    it drains.
    """
    if clock is Clock.EVENT_TIME:
        return watermark_ms, watermark_ms
    return batch.arrived_at_ms - 1, NEVER_MS if batch.floor_ms == NEVER_MS else batch.arrived_at_ms


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


def _admit(arrivals: Iterable[AdmittedEvent], late_by_ms: int, outcome: Outcome) -> None:
    """Put late events and duplicates aside, and add the others to the open events of ``outcome``."""
    open_by_key = _group_by_key(outcome.open_events)
    for key, arrivals_of_key in sorted(_group_by_key(arrivals).items()):
        # duplicates are compared with the events of the sessions that are due later
        known = {
            admitted.event.event_id: admitted.event
            for stretch in cut(open_by_key[key])
            if stretch.due_ms > late_by_ms
            for admitted in stretch.events
        }
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


def _migrate(migrate: Callable[[AdmittedEvent], AdmittedEvent | None], outcome: Outcome) -> None:
    """Replace the open events by their migrated ones, as if one batch had brought all of them.

    Events of two keys may get one key. If they have one id, the first stays, and the others are duplicates.
    """
    migrated = [after for after in map(migrate, outcome.open_events) if after is not None]
    outcome.open_events = []
    _admit(migrated, -NEVER_MS, outcome)  # no event is late


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
