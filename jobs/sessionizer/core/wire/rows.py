"""The kinds of rows into and out of the stateful operator, and the version of their blobs."""

from __future__ import annotations

from typing import Final

EVENTS: Final = "events"
PUNCTUATION: Final = "punctuation"
SESSIONS: Final = "sessions"
LATE: Final = "late"
QUARANTINE: Final = "quarantine"
REPEATED: Final = "repeated"
"""Duplicates that were dropped, as a count without a blob."""

OPEN: Final = "open"
"""Open sessions of the group, as a count and a ``core.key_group.group_load.OpenInGroup`` in JSON."""

SNAPSHOT: Final = "snapshot"
"""Open sessions of the group, by ``core.key_group.contents.open_schema``. Emitted in batches that a punctuation names.

A group without any emits an empty blob, so that a snapshot of none differs from no snapshot.
"""

OPEN_EVENTS: Final = "open_events"
"""Open events by ``canonical.canonical_schema``. Only a history emits them, never the operator."""

ADMISSIONS: Final = "admissions"
"""Admissions of the open events of a migration as a JSON list, if these have numbers in their place."""

OPEN_SESSIONS: Final = "open_sessions"
LATER: Final = "later"
"""Kinds that only a history emits, as counts without blobs.

``OPEN_SESSIONS`` counts the sessions of its open events, ``LATER`` the events that are left to the live source.
"""

QUARANTINE_COLUMNS: Final = ["reason", "_raw", "_position"]

EMITTED: Final = "kind string, key_group int, row_count int, blob binary"
"""Columns of the operator's output: one row for each blob, with its kind, its group and its number of rows."""


INITIAL: Final = "key_group int, number int, of int, blob binary"
"""Columns of a group's initial state: one row for each blob of its log.

``key_group`` is the group's label, ``number`` the blob's place in the log, ``of`` the number of blobs.
"""

REVISION: Final = "0002"
"""The revision of the blobs in the state. A new revision needs a migration."""
