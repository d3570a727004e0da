"""The merge of a group's log into finished sessions and open events, the heart of the stateful operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sessionizer.core.definition.rules import NEVER_MS, Caps, SessionRules
from sessionizer.core.key_group.cutting import (
    REASONS,
    Bools,
    CapsOfRows,
    Cuts,
    Int64s,
    codes,
    cut_sessions,
    int64s,
    order_events,
    session_order,
    whole_column,
)
from sessionizer.core.key_group.group_load import AGE_LIMITS, AGES, NO_LOAD, GroupLoad, place_of_p99
from sessionizer.core.key_group.repeated_events import Admissions, Verdicts, find_duplicates, surely_distinct
from sessionizer.core.wire import schema
from sessionizer.core.wire.alignment import align_table, align_values, unite_schemas
from sessionizer.core.wire.codec import (
    continues,
    is_wide,
    mark_admitted,
    read_admission_caps,
    read_admission_threshold,
    split_log,
    tombstones,
    wide_type,
    widen,
)
from sessionizer.core.wire.event_size import sizes_that_count


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
    order: Int64s
    cuts: Cuts
    admissions: Admissions
    conflicting: pa.Table | None
    repeated: int

    def rows_of(self, sessions: Bools) -> Int64s:
        """Return the rows of the selected ``sessions``, in order."""
        return self.order if sessions.all() else self.order[np.repeat(sessions, self.cuts.length)]


def lay_out(log: Sequence[pa.Table], rules: SessionRules, payload: schema.Payload) -> OrderedLog:
    """Return all sessions of a log, finished or not.

    Raises ``pa.ArrowTypeError`` if a column has no type in common among the tables and ``payload``.
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
    known = {field.name: field.type for field in log[0].schema}
    lacks = any(known.get(field.name) != field.type for field in columns)
    if lacks or any(not table.schema.equals(log[0].schema) for table in log):
        both = reduce(unite_schemas, (*(table.schema for table in log), columns))
        log = [align_table(table, both) for table in log]
    return pa.concat_tables(log)


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


DELETED_BEFORE_REWRITE: Final = 1 / 3
"""A log of which this share of the rows is deleted is written anew. An event is then written about three times."""
TABLES_BEFORE_REWRITE: Final = 128
"""A log of this many tables is written anew, because each table costs time to open."""


class Ends(NamedTuple):
    """The number of ``sessions``, and the instants at which the first and the last could end.

    Instants are in epoch ms, None for never.
    """

    sessions: int
    due_ms: int | None
    latest_due_ms: int | None


@dataclass(frozen=True, slots=True)
class Merged:
    """The outcome of a merge: sessions by ``session_schema``, open and conflicting events by ``event_schema``.

    ``open_events`` has one table for the events of each ``AdmissionTerms``. ``open`` describes the sessions that the
    open events make. ``repeated`` is the number of events dropped as duplicates. If the open events stay in the log,
    there are ``tombstones`` to append to it, and ``open_events`` is empty. ``load`` is for users only.
    """

    sessions: pa.RecordBatch | None
    open_events: tuple[pa.Table, ...]
    conflicting: pa.Table | None
    repeated: int
    open: Ends
    tombstones: pa.Table | None = None
    load: GroupLoad = NO_LOAD


def merge(
    log: Sequence[pa.Table],
    final_by_ms: int,
    rules: SessionRules,
    payload: schema.Payload,
    *,
    keeps_log: bool = False,
) -> Merged:
    """Split the sessions final by ``final_by_ms`` from the open events of a group's log.

    Final sessions get the columns of ``payload``, open events keep the columns they came with. ``log`` holds the tables
    of one group, oldest first, each stamped by ``mark_admitted``, and tombstones. ``keeps_log``: whether the open
    events may stay in the log. If the tables are large, the outcome has wide offsets (``codec.widen``) and leaves in
    ``codec.pieces``. Raises ``pa.ArrowTypeError`` if a column has no type in common among the tables and ``payload``.
    """
    laid = lay_out(log, rules, payload)
    final = laid.cuts.final(final_by_ms)
    deleted = np.ones(laid.events.num_rows, np.bool_)
    deleted[laid.rows_of(~final)] = False
    keeps_log = keeps_log and len(log) < TABLES_BEFORE_REWRITE and deleted.sum() < len(deleted) * DELETED_BEFORE_REWRITE
    open_events = () if keeps_log else tuple(_open_events(laid, ~final))
    return Merged(
        sessions=sessions_of(laid, final, payload),
        open_events=open_events,
        conflicting=laid.conflicting,
        repeated=laid.repeated,
        open=_ends_of(laid.cuts.due[~final]),
        tombstones=tombstones(deleted) if keeps_log else None,
        load=load_of(laid.cuts, final, laid.order[laid.cuts.first], laid.events, final_by_ms),
    )


def ends_of_open(log: Sequence[pa.Table], rules: SessionRules) -> Ends:
    """Return the ends of all sessions of a log. Raises ``pa.ArrowTypeError`` if tables have no type in common."""
    return _ends_of(lay_out(log, rules, []).cuts.due)


def _ends_of(due: Int64s) -> Ends:
    some = due[due < NEVER_MS]
    return Ends(len(due), int(some.min()) if len(some) else None, int(some.max()) if len(some) else None)


def _open_events(laid: OrderedLog, sessions: Bools) -> Iterator[pa.Table]:
    """Yield the events of the selected ``sessions``, one table for each terms, with only the columns of those terms."""
    rows = laid.rows_of(sessions)
    for number, (columns, caps) in enumerate(zip(laid.admissions.columns, laid.admissions.caps, strict=True)):
        ours = rows[laid.admissions.terms[rows] == number]
        if len(ours):
            kept = laid.events.select([name for name in laid.events.column_names if name in columns])
            # No event here repeats any more, so all count as admitted before every later batch.
            yield mark_admitted(kept.take(pa.array(ours)), 0, caps)


def sessions_of(laid: OrderedLog, which: Bools, payload: schema.Payload) -> pa.RecordBatch | None:
    """Return the sessions selected by ``which``, by ``schema.session_schema``, or None if there are none."""
    if not which.any():
        return None
    length = laid.cuts.length[which]
    rows = laid.events.take(pa.array(laid.rows_of(which))).combine_chunks()
    offsets = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
    first, last = pa.array(offsets[:-1]), pa.array(offsets[1:] - 1)
    columns = {name: whole_column(rows, name) for name in rows.column_names}
    event_time = own_time = instants(columns[schema.CLOCK])
    if (tie := columns.get(schema.TIE)) is not None:
        # an event without a time of its own shows its arrival
        own_time = instants(pc.if_else(pc.equal(tie, 0), columns[schema.CLOCK], tie))
    names = [field.name for field in schema.session_event_type(payload)]
    children = [own_time, columns[schema.EVENT_ID], columns[schema.CLOSES]]
    shown = [(columns[schema.payload_field(field).name], field.type) for field in payload]
    is_large = is_wide(rows.schema)
    children += [align_values(values, wide_type(kind) if is_large else kind) for values, kind in shown]
    values = [
        columns[schema.KEY].take(first),
        columns[schema.CLIENT].take(first),
        event_time.take(first),
        event_time.take(last),
        pa.array(length.astype(np.int32)),
        pa.array(REASONS[laid.cuts.reason[which]], pa.string()),
        columns[schema.EVENT_ID].take(first),
        pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(children, names=names)),
    ]
    return pa.RecordBatch.from_arrays(values, names=schema.session_schema(payload).names)


def instants(epoch_ms: pa.Array | Int64s) -> pa.Array:
    """Return epoch milliseconds as timestamps (µs, UTC)."""
    return pa.array(epoch_ms).cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))


HEAVIEST: Final = 3
"""Number of keys that a group reports."""

_LIMITS: Final = np.array([*AGE_LIMITS.values()], np.int64)


def load_of(cuts: Cuts, final: Bools, first: Int64s, events: pa.Table, now_ms: int) -> GroupLoad:
    """Return the load of a group whose log makes the sessions of ``cuts``, of which the ``final`` ones close.

    ``first`` are the positions of their first events in ``events``. Ages are at ``now_ms`` (epoch ms).
    """
    counts = np.bincount(cuts.reason[final], minlength=len(REASONS)).tolist()
    closed = {str(reason): count for reason, count in zip(REASONS, counts, strict=True) if count}
    length, rows = cuts.length[~final], first[~final]
    if not len(length):
        return GroupLoad(closed=closed, ages=(0,) * len(AGES))
    started = int64s(events, schema.CLOCK)[rows]
    of_age = np.searchsorted(_LIMITS, now_ms - started, side="right")
    candidates = np.argpartition(length, -HEAVIEST)[-HEAVIEST:] if len(length) > HEAVIEST else np.arange(len(length))
    largest, place = candidates[np.argsort(-length[candidates], kind="stable")], place_of_p99(len(length))
    keys = whole_column(events, schema.KEY).take(pa.array(rows[largest])).to_pylist()
    return GroupLoad(
        closed=closed,
        ages=tuple(np.bincount(of_age, minlength=len(AGES)).tolist()),
        # the beginning of a key is enough to know it
        heaviest=tuple((str(key)[:64], count) for key, count in zip(keys, length[largest].tolist(), strict=True)),
        p99_events=int(np.partition(length, place)[place]),
    )
