"""The sessions that are open, with the end that each would have if nothing more came: for people to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.core.key_group.merging import instants, laid_out, sessions_of
from sessionizer.core.wire import schema
from sessionizer.core.wire.wide import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessionizer.core.definition.rules import SessionRules

_RENAMED = {"ended_at": "last_event_at", "close_reason": "would_close_reason"}
_WOULD_END = "would_end_at"


def would_be_schema(payload: schema.Payload) -> pa.Schema:
    """As ``schema.session_schema``: ``last_event_at`` for its end, ``would_close_reason``, and ``would_end_at``.

    ``would_end_at`` is null where only a closing event ends a session.
    """
    fields = [field.with_name(_RENAMED.get(field.name, field.name)) for field in schema.session_schema(payload)]
    return pa.schema([*fields, pa.field(_WOULD_END, pa.timestamp("us", tz="UTC"))])


def would_be_sessions(log: Sequence[pa.Table], rules: SessionRules, payload: schema.Payload) -> Iterator[pa.Table]:
    """The sessions that a group's log makes as it is, by ``would_be_schema``, in pieces: duplicates are left out."""
    if not log:
        return
    laid = laid_out(log, rules, payload)
    sessions = sessions_of(laid, np.ones(len(laid.cuts.due), np.bool_), payload)
    if sessions is None:
        return
    ends = instants(pa.array(laid.cuts.due, mask=laid.cuts.due >= NEVER_MS))
    names = would_be_schema(payload).names
    yield from pieces(pa.Table.from_arrays([*sessions.columns, ends], names=names))
