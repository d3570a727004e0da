"""An event and the batch that brings it. All times are milliseconds since 1970, UTC."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Final, TypeAlias

from sessionizer.core.rules import NEVER_MS

BYTES_OF_VALUE: Final = 8
"""What any value counts for, whatever it is, null or not; text and bytes count on top."""

NAN: Final = float("nan")
"""The one that stands for all: tuples that hold the same object are equal, though NaN is no number's equal."""

Body: TypeAlias = tuple[int | None, bool, str | None, tuple[Hashable, ...]]


@dataclass(frozen=True, slots=True)
class Event:
    """One valid event: the guard has already put aside what is not.

    ``event_time_ms`` may be ``None`` only where the clock is not the event's own; ``timeout_ms`` is the gap timeout
    that the event itself brings, if any; ``payload`` holds the values of the columns to keep.
    """

    key: str
    client: str | None
    event_time_ms: int | None
    event_id: str
    closes: bool = False
    timeout_ms: int | None = None
    payload: tuple[Hashable, ...] = ()

    @property
    def body(self) -> Body:
        """What two events of one id must share to be the same event sent twice. The timeout is no part of it.

        NaN counts as equal to itself, zero as equal to minus zero.
        """
        payload = tuple(NAN if is_nan(value) else value for value in self.payload)
        return (self.event_time_ms, self.closes, self.client, payload)

    @property
    def size(self) -> int:
        """Bytes, as the cap ``max_bytes`` counts them: of key, client, id and each value of the payload."""
        return sum(map(size_of, (self.key, self.client, self.event_id, *self.payload)))


def size_of(value: Hashable) -> int:
    """Eight bytes for any value; on top text in UTF-8 and binary, or what is in a list, a struct or a map (a tuple)."""
    if isinstance(value, str):
        return BYTES_OF_VALUE + len(value.encode())
    if isinstance(value, bytes):
        return BYTES_OF_VALUE + len(value)
    return BYTES_OF_VALUE + (sum(map(size_of, value)) if isinstance(value, tuple) else 0)


def is_nan(value: Hashable) -> bool:
    """Whether a value of a payload is a number that is none."""
    return isinstance(value, float) and isnan(value)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one micro-batch brings.

    ``arrived_at_ms`` is the wall clock of the batch, higher than that of the batch before. A punctuation in it may
    carry ``timeout_changes``, the new gap timeout (ms) of each client named, and ``floor_ms``, a watermark: on arrival
    only the one that drains (``NEVER_MS``) counts.
    """

    events: tuple[Event, ...]
    arrived_at_ms: int
    floor_ms: int | None = None
    timeout_changes: Mapping[str, int] = field(default_factory=dict)


def drain_at(arrived_at_ms: int) -> Batch:
    """The batch that closes every open session. It brings no events: in event time they would all be late."""
    return Batch(events=(), arrived_at_ms=arrived_at_ms, floor_ms=NEVER_MS)
