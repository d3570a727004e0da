"""The kinds of rows that a feed writes, and the table in which each kind must end."""

from __future__ import annotations

from enum import StrEnum


class Destination(StrEnum):
    """The table that must hold a row after the stream has read it."""

    SESSIONS = "sessions"
    LATE_EVENTS = "late_events"
    QUARANTINE = "quarantine"
    DROPPED = "dropped"
    """The row is only counted, because it repeats a row that was admitted before."""


class RowKind(StrEnum):
    """The kind of a row, which is its fault or ``NORMAL``.

    A feed's ground truth is the number of rows of each kind.
    """

    NORMAL = "normal"
    LATE_WITHIN = "late_within"
    """The event time is behind the newest by less than the watermark delay."""
    LATE_BEYOND = "late_beyond"
    """The event time is a minute or more older than the watermark delay allows."""
    EXACT_DUPLICATE = "exact_duplicate"
    CONFLICTING_DUPLICATE = "conflicting_duplicate"
    """The row has the event id of a recent row, but another body."""
    TRUNCATED = "truncated"
    WRONG_TYPE = "wrong_type"
    INVALID_UTF8 = "invalid_utf8"
    NULL_KEY = "null_key"
    NULL_EVENT_ID = "null_event_id"
    NULL_TIME = "null_time"
    NON_POSITIVE_TIMEOUT = "non_positive_timeout"
    SECONDS_FOR_MILLISECONDS = "seconds_for_milliseconds"
    """The event time is in January 1970. The first batch of a new stream admits it, because no event is late yet."""
    MILLISECONDS_FOR_SECONDS = "milliseconds_for_seconds"
    """The event time is some 55,000 years ahead."""
    FUTURE = "future"
    """The event time is ten years ahead."""

    @property
    def destination(self) -> Destination:
        """The table that this kind ends in, if the stream's rules use the feed's watermark delay."""
        if self in QUARANTINE_REASONS:
            return Destination.QUARANTINE
        return _DESTINATIONS_OF_VALID_ROWS[self]


QUARANTINE_REASONS: dict[RowKind, str] = {
    RowKind.CONFLICTING_DUPLICATE: "conflicting_duplicate",
    RowKind.TRUNCATED: "malformed",
    RowKind.WRONG_TYPE: "wrong_type",
    RowKind.INVALID_UTF8: "invalid_utf8",
    RowKind.NULL_KEY: "null_key",
    RowKind.NULL_EVENT_ID: "null_event_id",
    RowKind.NULL_TIME: "null_event_time",
    RowKind.NON_POSITIVE_TIMEOUT: "non_positive_timeout",
    RowKind.MILLISECONDS_FOR_SECONDS: "future_event_time",
    RowKind.FUTURE: "future_event_time",
}
"""The reason under which the clicks stream must quarantine each kind."""

_DESTINATIONS_OF_VALID_ROWS = {
    RowKind.NORMAL: Destination.SESSIONS,
    RowKind.LATE_WITHIN: Destination.SESSIONS,
    RowKind.LATE_BEYOND: Destination.LATE_EVENTS,
    RowKind.SECONDS_FOR_MILLISECONDS: Destination.LATE_EVENTS,
    RowKind.EXACT_DUPLICATE: Destination.DROPPED,
}
