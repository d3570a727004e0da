"""An event and the batch that brings it. All times are milliseconds since 1970, UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sessionizer.core.definition.plain_values import written
from sessionizer.core.definition.rules import NEVER_MS, SessionRules

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

BYTES_OF_VALUE: Final = 8
"""What any value counts for but null, which counts nothing; text and bytes count on top."""


@dataclass(frozen=True, slots=True)
class Event:
    """One valid event: the guard has already put aside what is not.

    ``event_time_ms`` may be ``None`` only where the clock is not the event's own; ``timeout_ms`` is the gap timeout
    that the event itself brings, if any; ``payload`` holds the values of the columns to keep, and ``columns`` their
    names, which may be left out where all events have the same.
    """

    key: str
    client: str | None
    event_time_ms: int | None
    event_id: str
    closes: bool = False
    timeout_ms: int | None = None
    payload: tuple[Hashable, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def named_payload(self) -> dict[str, Hashable]:
        """The columns to keep, by name (by number where they have none)."""
        names = self.columns or tuple(f"{number:03}" for number in range(len(self.payload)))
        return dict(zip(names, self.payload, strict=True))

    def repeats(self, other: Event) -> bool:
        """Whether it is ``other``, an event of the same key and id, sent again; else the two are in conflict.

        They must agree in time, client, whether they close, and each payload column that both came with: the payload
        may have been changed between them. The timeout does not count. NaN is as good as NaN, zero as minus zero, a
        field that a struct does not have as one that is null.
        """
        if (self.event_time_ms, self.closes, self.client) != (other.event_time_ms, other.closes, other.client):
            return False
        ours, others = self.named_payload, other.named_payload
        return all(written(ours[name]) == written(others[name]) for name in ours.keys() & others.keys())

    @property
    def size(self) -> int:
        """Bytes, as the cap ``max_bytes`` counts them: of key, client, id and each value of the payload."""
        return sum(map(size_of, (self.key, self.client, self.event_id, *self.payload)))


def size_of(value: Hashable) -> int:
    """Eight bytes for any value but null; on top text in UTF-8 and binary, or the parts of a list, struct or entry."""
    if value is None:
        return 0
    if isinstance(value, dict):
        return BYTES_OF_VALUE + sum(map(size_of, value.values()))
    if isinstance(value, str):
        return BYTES_OF_VALUE + len(value.encode())
    if isinstance(value, bytes):
        return BYTES_OF_VALUE + len(value)
    return BYTES_OF_VALUE + (sum(map(size_of, value)) if isinstance(value, tuple) else 0)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one micro-batch brings.

    ``arrived_at_ms`` is the wall clock of the batch, higher than that of the batch before. A punctuation in it may
    carry ``timeout_changes``, the new gap timeout (ms) of each client named, and ``floor_ms``, a watermark: on arrival
    only the one that drains (``NEVER_MS``) counts. ``rules``: those that hold from this batch on, if they are others.
    """

    events: tuple[Event, ...]
    arrived_at_ms: int
    floor_ms: int | None = None
    timeout_changes: Mapping[str, int] = field(default_factory=dict)
    rules: SessionRules | None = None


def drain_at(arrived_at_ms: int) -> Batch:
    """The batch that closes every open session. It brings no events: in event time they would all be late."""
    return Batch(events=(), arrived_at_ms=arrived_at_ms, floor_ms=NEVER_MS)
