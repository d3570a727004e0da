"""Tables of more than 2 GiB of text: 64-bit offsets during a merge, and small pieces for its output.

A column of text or bytes has offsets of 32 bits in the state, in Spark and in the tables. If a group holds more text
than they reach, its columns get offsets of 64 bits. Only a merge sees these.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from sessionizer.core.wire import schema
from sessionizer.core.wire.codec import mark_continued
from sessionizer.core.wire.event_size import sizes_of_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WIDE_FROM_BYTES: Final = 2**30
"""A table of this size (bytes) gets offsets of 64 bits. It is half of the reach of 32 bits."""
PIECE_BYTES: Final = 2**22
"""Bytes of rows in a blob, exceeded by at most one row.

The JVM holds several whole blobs in its heap at a time: rows on their way, and one for each part that a sort spilled.
"""

_WIDE: Final = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_NARROW: Final = {wide: narrow for narrow, wide in _WIDE.items()}


def widen(table: pa.Table) -> pa.Table:
    """Return ``table``, with wide offsets if it is large."""
    if table.nbytes < WIDE_FROM_BYTES:
        return table
    fields = [field.with_type(_replace_leaves(field.type, _WIDE)) for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def is_wide(rows: pa.Schema) -> bool:
    """Whether ``widen`` gave these columns wide offsets."""
    return bool(rows.field(schema.KEY).type == pa.large_string())


def wide_type(kind: pa.DataType) -> pa.DataType:
    """Return ``kind`` with wide offsets."""
    return _replace_leaves(kind, _WIDE)


def pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Yield ``table`` in order, in parts small enough for one blob each, with narrow offsets."""
    narrow = narrow_schema(table.schema)
    if table.nbytes <= PIECE_BYTES:
        yield table if table.schema.equals(narrow) else table.cast(narrow)
        return
    for start, end in pairwise([*_edges(table), table.num_rows]):
        # take, not slice, because a slice keeps offsets that may exceed the reach of narrow ones
        yield table.take(pa.array(np.arange(start, end))).cast(narrow)


def log_tables(events: pa.Table) -> list[pa.Table]:
    """Return open events as tables of a group's log, mostly one table."""
    first, *others = pieces(events)
    return [first, *map(mark_continued, others)]


def _edges(table: pa.Table) -> list[int]:
    """Return the first row of each piece."""
    sizes = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        sizes += np.concatenate([np.empty(0, np.int64), *map(sizes_of_values, column.chunks)])
    before = np.cumsum(sizes) - sizes
    return [0, *(np.flatnonzero(np.diff(before // PIECE_BYTES)) + 1).tolist()]


def narrow_schema(wide: pa.Schema) -> pa.Schema:
    """Return the schema ``wide`` with narrow offsets, which undoes ``widen``."""
    fields = [field.with_type(_replace_leaves(field.type, _NARROW)) for field in wide]
    return pa.schema(fields, wide.metadata)


def _replace_leaves(kind: pa.DataType, leaves: Mapping[pa.DataType, pa.DataType]) -> pa.DataType:
    """Return ``kind`` with other types of text and bytes at every depth."""
    if isinstance(kind, pa.ListType):
        return pa.list_(kind.value_field.with_type(_replace_leaves(kind.value_type, leaves)))
    if isinstance(kind, pa.MapType):
        return pa.map_(_replace_leaves(kind.key_type, leaves), _replace_leaves(kind.item_type, leaves))
    if isinstance(kind, pa.StructType):
        return pa.struct([field.with_type(_replace_leaves(field.type, leaves)) for field in kind])
    return leaves.get(kind, kind)
