"""Rows of the ``clicks`` stream, one JSON object per row.

The columns are ``event_id string, user_id string, client string, ts bigint, type string, page string, amount double,
device string, timeout_s int``. ``ts`` is in epoch milliseconds, ``timeout_s`` in seconds or null.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sessionizer_demo.feed.rows.kinds import RowKind

if TYPE_CHECKING:
    from random import Random

    from sessionizer_demo.feed.traffic.events import ClickEvent

CLICK_KINDS = frozenset(RowKind)
"""The kinds of rows that a clicks feed can write, which are all."""

_NULLED_COLUMN = {RowKind.NULL_KEY: "user_id", RowKind.NULL_EVENT_ID: "event_id", RowKind.NULL_TIME: "ts"}
_WRONG_TYPES: tuple[dict[str, object], ...] = (
    {"ts": "yesterday"},
    {"ts": {"seconds": 1}},
    {"amount": "twelve"},
    {"amount": [1, 2]},
    {"timeout_s": "soon"},
)
_START_OF_PAGE = b'"page":"/'
_NOT_UTF8 = b"\xc3\x28\xff"


def write_click(event: ClickEvent, kind: RowKind, rng: Random) -> bytes:
    """Return ``event`` as one line of JSON without a line end, with the fault of form of ``kind``."""
    columns = _columns(event)
    if kind in _NULLED_COLUMN:
        columns[_NULLED_COLUMN[kind]] = None
    if kind is RowKind.WRONG_TYPE:
        columns |= rng.choice(_WRONG_TYPES)
    line = json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode()
    if kind is RowKind.TRUNCATED:
        # a row cut inside a character is INVALID_UTF8, and has another reason
        return line[: rng.randrange(1, len(line) - 1)].decode(errors="ignore").encode()
    if kind is RowKind.INVALID_UTF8:
        return line.replace(_START_OF_PAGE, _START_OF_PAGE + _NOT_UTF8, 1)
    return line


def _columns(event: ClickEvent) -> dict[str, object]:
    return {
        "event_id": event.event_id,
        "user_id": event.user_id,
        "client": event.client,
        "ts": event.ts,
        "type": event.type,
        "page": event.page,
        "amount": event.amount,
        "device": event.device,
        "timeout_s": event.timeout_s,
    }
