"""Reasons for the end of a session and for the quarantine of a row, with the values that the tables show."""

from __future__ import annotations

from enum import StrEnum


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
    LEFT_OUT = "left_out"
    """The row is in a range of the source that the user excluded in a restore."""
