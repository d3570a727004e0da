"""An event, the batch that brings it, and the id of its session. All times are milliseconds since 1970, UTC."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from sessionizer.core.definition.plain_values import format_value
from sessionizer.core.definition.rules import NEVER_MS, NO_CAPS, Caps, SessionRules

BYTES_OF_VALUE: Final = 8
"""Bytes that each value counts, without its text or bytes. Null counts 0."""


@dataclass(frozen=True, slots=True)
class Event:
    """A valid event. The guard has quarantined the others.

    ``event_time_ms`` may be ``None`` only if the stream runs on an arrival clock. ``timeout_ms`` is the gap timeout
    that the event itself brings, if any. ``payload`` holds the values of the columns to keep, ``columns`` their names.
    ``columns`` may be omitted if all events have the same.
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
        """The values of the columns to keep, by name, or by number if they have none."""
        names = self.columns or tuple(f"{number:03}" for number in range(len(self.payload)))
        return dict(zip(names, self.payload, strict=True))

    def repeats(self, other: Event) -> bool:
        """Whether this event repeats ``other``, an event of the same key and id. If not, the two conflict.

        A repeat has the same time, client and ``closes``, and the same value in each payload column that both events
        have: the spec's payload may have changed between them. The timeout does not count. NaN equals NaN, zero
        equals minus zero, and a missing field of a struct equals a null field.
        """
        if (self.event_time_ms, self.closes, self.client) != (other.event_time_ms, other.closes, other.client):
            return False
        ours, others = self.named_payload, other.named_payload
        return all(format_value(ours[name]) == format_value(others[name]) for name in ours.keys() & others.keys())

    @property
    def size(self) -> int:
        """Size in bytes, as the cap ``max_bytes`` counts: key, client, id and each value of the payload."""
        return sum(map(value_size, (self.key, self.client, self.event_id, *self.payload)))


@dataclass(frozen=True, slots=True)
class AdmittedEvent:
    """An event that counts, with its moment on the stream's clock, and the timeout and caps it was admitted with.

    ``timeout_ms`` is the gap timeout after it. ``caps`` are those of a session whose last event it is. New rules do not
    change them.
    """

    event: Event
    clock_ms: int
    timeout_ms: int
    caps: Caps = NO_CAPS

    @property
    def deadline_ms(self) -> int:
        """The last moment (ms) at which another event still continues this event's session."""
        return min(self.clock_ms + self.timeout_ms, NEVER_MS)


def value_size(value: Hashable) -> int:
    """Return the size of a value in bytes: 0 for null, else eight plus its content.

    The content is the UTF-8 text, the binary value, or the sizes of the parts of a list, struct or map entry.
    """
    if value is None:
        return 0
    if isinstance(value, dict):
        return BYTES_OF_VALUE + sum(map(value_size, value.values()))
    if isinstance(value, str):
        return BYTES_OF_VALUE + len(value.encode())
    if isinstance(value, bytes):
        return BYTES_OF_VALUE + len(value)
    return BYTES_OF_VALUE + (sum(map(value_size, value)) if isinstance(value, tuple) else 0)


@dataclass(frozen=True, slots=True)
class Batch:
    """The input of one micro-batch.

    ``arrived_at_ms`` is the wall clock of the batch, higher than that of the batch before. A punctuation in the batch
    may carry ``timeout_changes``, the new gap timeout (ms) of each client named, and ``floor_ms``, a watermark. On an
    arrival clock only the floor that drains (``NEVER_MS``) counts. ``rules`` are the new rules from this batch on, or
    None if they stay. ``migrate`` changes the events that are open before the batch, and returns None for an event that
    leaves.
    """

    events: tuple[Event, ...]
    arrived_at_ms: int
    floor_ms: int | None = None
    timeout_changes: Mapping[str, int] = field(default_factory=dict)
    rules: SessionRules | None = None
    migrate: Callable[[AdmittedEvent], AdmittedEvent | None] | None = None


def session_id(key: str, started_at_ms: int, first_event_id: str) -> str:
    """Return the first 32 hexadecimal digits of SHA-256 over key, start (ms) and first event id.

    So the same events give the same id, in any replay and any lineage.
    The three are UTF-8 text with NUL between them. If the key or the id has a NUL itself, the length of the key in
    bytes follows. Such a text has at least four NULs, the others two, so that no two sessions hash the same text.
    """
    parts = [key, str(started_at_ms), first_event_id]
    if "\0" in key or "\0" in first_event_id:
        parts.append(str(len(key.encode())))
    return sha256("\0".join(parts).encode()).hexdigest()[:32]
