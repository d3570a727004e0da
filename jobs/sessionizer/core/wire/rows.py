"""The kinds of rows that go into and come out of the stateful operator, and the version of the blobs in them."""

from __future__ import annotations

from typing import Final

EVENTS: Final = "events"
PUNCTUATION: Final = "punctuation"
SESSIONS: Final = "sessions"
LATE: Final = "late"
QUARANTINE: Final = "quarantine"
REPEATED: Final = "repeated"
"""Duplicates that were dropped: a count, no blob."""

OPEN: Final = "open"
"""What is open in the group: a count of sessions, and a ``core.key_group.open_in_group.OpenInGroup`` as JSON."""

OPEN_EVENTS: Final = "open_events"
"""Of a history that is taken at once, not of the operator: open events by ``canonical.canonical_schema``."""

OPEN_SESSIONS: Final = "open_sessions"
LATER: Final = "later"
"""Of a history too: the sessions that these make, the events that are left to the live source. Counts, no blobs."""

QUARANTINE_COLUMNS: Final = ["reason", "_raw", "_position"]

EMITTED: Final = "kind string, key_group int, row_count int, blob binary"
"""What the operator emits: one row per blob, its kind, the group it is of and how many rows are in it."""


INITIAL: Final = "key_group int, number int, of int, blob binary"
"""What a group may begin with: a row for each blob of its log, by the group's label, its place and how many there are.
"""

REVISION: Final = "0001"
"""Of what the blobs of the state hold; a newer one gets a migration."""
