"""The open sessions for inspection, each with the end that it would have if no further event came."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.core.key_group.layout import lay_out
from sessionizer.core.key_group.merging import instants, sessions_of
from sessionizer.core.wire import schema
from sessionizer.core.wire.wide import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessionizer.core.definition.rules import SessionRules

_RENAMED = {"ended_at": "last_event_at", "close_reason": "would_close_reason"}
_WOULD_END = "would_end_at"


def would_be_schema(payload: schema.Payload) -> pa.Schema:
    """Return the schema of open sessions, which is ``schema.session_schema`` with these changes.

    ``ended_at`` becomes ``last_event_at``, ``close_reason`` becomes ``would_close_reason``. A column ``would_end_at``
    is added. It is null if only a closing event can end the session.
    """
    fields = [field.with_name(_RENAMED.get(field.name, field.name)) for field in schema.session_schema(payload)]
    return pa.schema([*fields, pa.field(_WOULD_END, pa.timestamp("us", tz="UTC"))])


def would_be_sessions(log: Sequence[pa.Table], rules: SessionRules, payload: schema.Payload) -> Iterator[pa.Table]:
    """Yield the sessions that a group's log makes, without duplicates, by ``would_be_schema``, in pieces.

    Raises ``pa.ArrowTypeError`` if a column has no type in common between two tables, or between a table and
    ``payload``.
    """
    if not log:
        return
    laid = lay_out(log, rules, payload)
    sessions = sessions_of(laid, np.ones(len(laid.cuts.due), np.bool_), payload)
    if sessions is None:
        return
    ends = instants(pa.array(laid.cuts.due, mask=laid.cuts.due >= NEVER_MS))
    names = would_be_schema(payload).names
    yield from pieces(pa.Table.from_arrays([*sessions.columns, ends], names=names))
