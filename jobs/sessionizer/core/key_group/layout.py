"""A group's log laid out in session order: its stored rows, its sessions, its repeats and conflicts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from sessionizer.core.key_group.cutting import Bools, Cuts, Int64s, cut_sessions
from sessionizer.core.key_group.distinct import surely_distinct
from sessionizer.core.key_group.duplicates import Admissions, Verdicts, find_duplicates
from sessionizer.core.key_group.ordering import (
    CapsOfRows,
    Positions,
    codes,
    order_events,
    session_order,
    whole_column,
)
from sessionizer.core.wire import schema
from sessionizer.core.wire.alignment import align_table, unite_schemas
from sessionizer.core.wire.codec import continues, read_admission_caps, read_admission_threshold
from sessionizer.core.wire.event_size import sizes_that_count
from sessionizer.core.wire.tombstones import split_log
from sessionizer.core.wire.wide import widen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.core.definition.rules import Caps, SessionRules


class AdmissionTerms(NamedTuple):
    """The terms by which a table's events were admitted and which they keep: their columns and their caps."""

    columns: frozenset[str]
    caps: Caps


@dataclass(frozen=True, slots=True)
class OrderedLog:
    """A log in session order.

    ``events`` are all stored rows. ``order`` holds the positions of those that are neither deleted nor repeats, in
    session order, ``cuts`` the sessions in that order.
    """

    events: pa.Table
    order: Positions
    cuts: Cuts
    admissions: Admissions
    conflicting: pa.Table | None
    repeated: int

    def rows_of(self, sessions: Bools) -> Positions:
        """Return the rows of the selected ``sessions``, in order."""
        return self.order if sessions.all() else self.order[np.repeat(sessions, self.cuts.length)]


def lay_out(log: Sequence[pa.Table], rules: SessionRules, payload: schema.Payload) -> OrderedLog:
    """Return all sessions of a log, finished or not.

    Raises ``pa.ArrowTypeError`` if a column has no type in common between two tables, or between a table and
    ``payload``.
    """
    stored = split_log(log)
    events = widen(_gather_rows(stored.tables, payload)).combine_chunks()
    key, _ = codes(events, schema.KEY)
    admissions = _admissions(stored.tables, rules)
    refused = _judge_rows(events, key, admissions, ~stored.deleted)
    left_out = stored.deleted | refused.repeated | refused.conflicting
    order = session_order(events, key)
    order = order[~left_out[order]] if left_out.any() else order
    sizes = sizes_that_count(events, admissions.caps)
    caps = CapsOfRows.of(admissions.caps, admissions.terms[order])
    cuts = cut_sessions(order_events(events, key, order, caps, sizes))
    conflicting = events.filter(pa.array(refused.conflicting)) if refused.conflicting.any() else None
    return OrderedLog(events, order, cuts, admissions, conflicting, int(refused.repeated.sum()))


def _judge_rows(events: pa.Table, key: Int64s, admissions: Admissions, stored: Bools) -> Verdicts:
    """Return the verdicts on all rows. Rows that are not ``stored`` any more are compared with nothing."""
    verdicts = Verdicts.all_kept(events.num_rows)
    ids = whole_column(events, schema.EVENT_ID)
    if surely_distinct(ids if stored.all() else ids.filter(pa.array(stored))):
        return verdicts
    rows = np.flatnonzero(stored)
    among = find_duplicates(events.filter(pa.array(stored)), key[rows], admissions.select(rows))
    verdicts.repeated[rows], verdicts.conflicting[rows] = among.repeated, among.conflicting
    return verdicts


def _gather_rows(log: Sequence[pa.Table], payload: schema.Payload) -> pa.Table:
    """Return all rows, in the columns of all tables and of ``payload``. Columns that a row came without are null."""
    columns = pa.schema([schema.payload_field(field) for field in payload])
    if any(not table.schema.equals(log[0].schema) for table in log) or not _holds(log[0].schema, columns):
        both = reduce(unite_schemas, (*(table.schema for table in log), columns))
        log = [align_table(table, both) for table in log]
    return pa.concat_tables(log)


def _holds(table: pa.Schema, columns: pa.Schema) -> bool:
    names = set(table.names)
    return all(field.name in names and table.field(field.name).type.equals(field.type) for field in columns)


def _admissions(log: Sequence[pa.Table], rules: SessionRules) -> Admissions:
    rows = [table.num_rows for table in log]
    of_table = [
        AdmissionTerms(frozenset(table.column_names), read_admission_caps(table) or rules.caps) for table in log
    ]
    distinct = list(dict.fromkeys(of_table))
    return Admissions(
        turn=np.repeat(np.cumsum([not continues(table) for table in log]), rows),
        late_before=np.repeat(np.array([read_admission_threshold(table) for table in log], np.int64), rows),
        terms=np.repeat(np.array([distinct.index(terms) for terms in of_table], np.int64), rows),
        columns=[terms.columns for terms in distinct],
        caps=[terms.caps for terms in distinct],
    )
