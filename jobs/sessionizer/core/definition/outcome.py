"""The outcome of a stream: final sessions, and the reasons for their ends and for the quarantine of a row.

The tables show the values of the reasons. Nothing heavy is imported here, because DAG files load these names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessionizer.core.definition.event import AdmittedEvent, Event


class CloseReason(StrEnum):
    """The reason why a session ended. If several apply, the first in this order counts."""

    CLOSING_EVENT = "closing_event"
    MAX_EVENTS = "max_events"
    MAX_BYTES = "max_bytes"
    GAP = "gap"
    MAX_DURATION = "max_duration"


class QuarantineReason(StrEnum):
    """The reason why a row was quarantined."""

    MALFORMED = "malformed"
    UNKNOWN_SCHEMA = "unknown_schema"
    """The value names a schema that the registry does not have, or one without the message of the source."""
    WRONG_TYPE = "wrong_type"
    INVALID_UTF8 = "invalid_utf8"
    OVERSIZED = "oversized"
    NULL_KEY = "null_key"
    NULL_EVENT_ID = "null_event_id"
    NULL_EVENT_TIME = "null_event_time"
    NON_POSITIVE_EVENT_TIME = "non_positive_event_time"
    FUTURE_EVENT_TIME = "future_event_time"
    NON_POSITIVE_TIMEOUT = "non_positive_timeout"
    YEAR_OUT_OF_RANGE = "year_out_of_range"
    """A day or instant of the payload is outside of the years 1 to 9999: not every reader has a value for it."""
    CONFLICTING_DUPLICATE = "conflicting_duplicate"
    """The row has the key and id of an event of an open session, but another body."""
    UNREADABLE_FILE = "unreadable_file"
    EXCLUDED = "excluded"
    """The row is in a range of the source that the user excluded in a restore."""
    ERASED = "erased"
    """The row is of a key that was erased, from before that moment. Its text is not kept."""


@dataclass(frozen=True, slots=True)
class Session:
    """A final session. ``started_at_ms`` and ``ended_at_ms`` are the clock of its first and its last event."""

    session_id: str
    key: str
    client: str | None
    started_at_ms: int
    ended_at_ms: int
    event_count: int
    close_reason: CloseReason
    events: tuple[Event, ...]


@dataclass(slots=True)
class Outcome:
    """The sessions and events of a stream after its last batch.

    ``closed`` holds the final sessions in the order they became final: by batch, key and time. ``open_events`` is
    ordered by key and time, ``late`` and ``conflicting`` by batch, key and canonical order. ``watermark_ms`` is the
    moment up to which sessions are final. On the two arrival clocks it is the wall clock of the last batch.
    """

    closed: list[Session] = field(default_factory=list)
    open_events: list[AdmittedEvent] = field(default_factory=list)
    late: list[Event] = field(default_factory=list)
    conflicting: list[Event] = field(default_factory=list)
    duplicates_dropped: int = 0
    watermark_ms: int = 0
