"""Why a session ended, and why a row never reached one. The values are what the tables show."""

from __future__ import annotations

from enum import StrEnum


class CloseReason(StrEnum):
    """What cut a session off from the next; of several that apply, the first in this order is named."""

    CLOSING_EVENT = "closing_event"
    MAX_EVENTS = "max_events"
    MAX_BYTES = "max_bytes"
    GAP = "gap"
    MAX_DURATION = "max_duration"


class QuarantineReason(StrEnum):
    """Why a row was put aside."""

    MALFORMED = "malformed"
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
    """Same key and id as an event of a session still open, but another body."""
    UNREADABLE_FILE = "unreadable_file"
    LEFT_OUT = "left_out"
    """In a range of the source that whoever restored the stream left out."""
