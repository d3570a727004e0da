"""The order in which a key's events make sessions: clock, tie, closes, event id (docs/sessions.md, 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.core.key_group.cutting import Int64s, OrderedEvents
from sessionizer.core.wire import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.core.definition.rules import Caps

Positions = NDArray[np.int64]


class CapsOfRows(NamedTuple):
    """The caps of each row of a table, ``NEVER_MS`` if it has none."""

    max_events: Int64s
    max_duration: Int64s
    max_bytes: Int64s

    @classmethod
    def of(cls, caps: Sequence[Caps], which: Int64s) -> CapsOfRows:
        """Return the caps of each row, given for each row its position in ``caps`` (``which``)."""
        each = [[NEVER_MS if cap is None else cap for cap in kind] for kind in zip(*caps, strict=True)]
        if len(caps) == 1:
            return cls(*(np.full(len(which), value) for (value,) in each))
        return cls(*(np.array(values, np.int64)[which] for values in each))


_BITS_OF_INT64 = 63  # without the sign


def int64s(table: pa.Table, column: str) -> Int64s:
    """Return a column without nulls as a numpy array."""
    values: Int64s = table.column(column).to_numpy()
    return values


def whole_column(table: pa.Table, column: str) -> pa.Array:
    """Return a column as one array."""
    chunks = table.column(column).combine_chunks()
    return chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks


def codes(table: pa.Table, column: str) -> tuple[Int64s, int]:
    """Return a string column as small numbers, equal exactly if the strings are, and how many there are."""
    encoded = whole_column(table, column).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def session_order(table: pa.Table, key: Int64s) -> Positions:
    """Return the positions that sort the events by key code, clock, tie, closes and event id.

    Sorting by key and clock orders nearly all events. Only events of equal key and clock need the other columns, of
    which some are strings.
    """
    clock = int64s(table, schema.CLOCK)
    order = _sort_by_key_and_clock(key, clock)
    tied = (key[order[1:]] == key[order[:-1]]) & (clock[order[1:]] == clock[order[:-1]])
    if not tied.any():
        return order
    in_tie = np.append(tied, False) | np.insert(tied, 0, False)
    run = np.cumsum(np.insert(~tied, 0, True))[in_tie]
    order[in_tie] = _break_ties(table, order[in_tie], run)
    return order


def _sort_by_key_and_clock(key: Int64s, clock: Int64s) -> Positions:
    """Return the positions that sort by key and clock.

    If both fit in 63 bits, one integer is sorted. They fit for less than 2^20 keys and 2^42 ms.
    """
    if not len(key):
        return np.empty(0, np.int64)
    earliest = clock.min()
    bits = int(clock.max() - earliest).bit_length()
    if bits + int(key.max()).bit_length() > _BITS_OF_INT64:
        return np.lexsort((clock, key))
    return np.argsort((key << bits) | (clock - earliest))


def _break_ties(table: pa.Table, rows: Positions, run: Int64s) -> Positions:
    columns = [name for name in (schema.TIE, schema.CLOSES, schema.EVENT_ID) if name in table.column_names]
    tied = table.select(columns).take(pa.array(rows)).append_column("run", pa.array(run))
    keys = [("run", "ascending"), *((name, "ascending") for name in columns)]
    order: Positions = pc.sort_indices(tied, sort_keys=keys).to_numpy()
    return rows[order]


def order_events(
    table: pa.Table, key: Int64s, order: Positions, caps: CapsOfRows, size: Int64s | None
) -> OrderedEvents:
    """Return the columns that decide on cuts, in session order, in which ``caps`` are already.

    ``size`` is the size of each row in bytes, None if no cap counts bytes.
    """
    return OrderedEvents(
        key[order],
        int64s(table, schema.CLOCK)[order],
        table.column(schema.CLOSES).to_numpy()[order],
        int64s(table, schema.TIMEOUT)[order],
        *caps,
        None if size is None else np.concatenate([[0], np.cumsum(size[order])]),
    )
