"""One group's log of blobs made into finished sessions and what stays open: the heart of the stateful operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sessionizer.core import schema
from sessionizer.core.codec import admitted_after, continues, mark_admitted
from sessionizer.core.cutting import REASONS, Bools, Cuts, Int64s, cut_sessions
from sessionizer.core.duplicates import Admissions, find_duplicates
from sessionizer.core.event_size import sizes_that_count
from sessionizer.core.ordering import Positions, codes, ordered_events, session_order, whole_column
from sessionizer.core.rules import NEVER_MS
from sessionizer.core.wide import widened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.core.rules import Rules


@dataclass(frozen=True, slots=True)
class Merged:
    """Outcome of a merge: sessions by ``session_schema``, open and conflicting events by ``event_schema``.

    ``open_sessions``: how many sessions the open events make. ``repeated``: events dropped as duplicates.
    ``due_ms``: when the earliest open session could end (epoch ms), None for never; ``latest_due_ms``: the latest.
    """

    sessions: pa.RecordBatch | None
    open_events: pa.Table | None
    conflicting: pa.Table | None
    repeated: int
    open_sessions: int
    due_ms: int | None
    latest_due_ms: int | None


def merge(log: Sequence[pa.Table], final_by_ms: int, rules: Rules, payload: schema.Payload) -> Merged:
    """Sessions final by ``final_by_ms`` leave; the rest becomes one table.

    ``log``: tables of one group as admitted, oldest first, each stamped by ``mark_admitted``. Where they are large, the
    outcome has wide offsets (``wide.widened``), and leaves in ``wide.pieces``.
    """
    events = widened(pa.concat_tables(log)).combine_chunks()
    key, _ = codes(events, schema.KEY)
    verdicts = find_duplicates(events, key, _admissions(log), rules)
    conflicting = events.filter(pa.array(verdicts.conflicting)) if verdicts.conflicting.any() else None
    repeated = int(verdicts.repeated.sum())
    if conflicting is not None or repeated:
        events, key = events.filter(pa.array(verdicts.kept)), key[verdicts.kept]
    order = session_order(events, key)
    cuts = cut_sessions(ordered_events(events, key, order, sizes_that_count(events, rules.max_bytes)), rules)
    final = cuts.final(final_by_ms)
    due = cuts.due[~final & (cuts.due < NEVER_MS)]
    return Merged(
        sessions=_sessions(events, order, cuts, final, payload),
        open_events=_open_events(events, order, cuts, final),
        conflicting=conflicting,
        repeated=repeated,
        open_sessions=int((~final).sum()),
        due_ms=int(due.min()) if len(due) else None,
        latest_due_ms=int(due.max()) if len(due) else None,
    )


def _admissions(log: Sequence[pa.Table]) -> Admissions:
    rows = [table.num_rows for table in log]
    return Admissions(
        turn=np.repeat(np.cumsum([not continues(table) for table in log]), rows),
        late_before=np.repeat(np.array([admitted_after(table) for table in log], np.int64), rows),
    )


def _open_events(events: pa.Table, order: Positions, cuts: Cuts, final: Bools) -> pa.Table | None:
    if final.all():
        return None
    rows = order if not final.any() else order[~np.repeat(final, cuts.length)]
    # Nothing here repeats any more, so it counts as admitted before everything to come.
    return mark_admitted(events.take(pa.array(rows)), 0)


def _sessions(
    events: pa.Table, order: Positions, cuts: Cuts, final: Bools, payload: schema.Payload
) -> pa.RecordBatch | None:
    if not final.any():
        return None
    length = cuts.length[final]
    rows = events.take(pa.array(order[np.repeat(final, cuts.length)])).combine_chunks()
    offsets = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
    first, last = pa.array(offsets[:-1]), pa.array(offsets[1:] - 1)
    columns = {name: whole_column(rows, name) for name in rows.column_names}
    event_time = instants(columns[schema.CLOCK])
    own_time = instants(_own_time(columns)) if schema.TIE in columns else event_time
    names = [field.name for field in schema.session_event_type(payload)]
    children = [own_time, columns[schema.EVENT_ID], columns[schema.CLOSES]]
    children += [columns[schema.payload_field(field).name] for field in payload]
    values = [
        columns[schema.KEY].take(first),
        columns[schema.CLIENT].take(first),
        event_time.take(first),
        event_time.take(last),
        pa.array(length.astype(np.int32)),
        pa.array(REASONS[cuts.reason[final]], pa.string()),
        columns[schema.EVENT_ID].take(first),
        pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(children, names=names)),
    ]
    return pa.RecordBatch.from_arrays(values, names=schema.session_schema(payload).names)


def _own_time(columns: dict[str, pa.Array]) -> pa.Array:
    """In the arrival modes an event without a time of its own (tie 0) is shown at its arrival."""
    return pc.if_else(pc.equal(columns[schema.TIE], 0), columns[schema.CLOCK], columns[schema.TIE])


def instants(epoch_ms: pa.Array | Int64s) -> pa.Array:
    """Epoch milliseconds as timestamps (µs, UTC)."""
    return pa.array(epoch_ms).cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
