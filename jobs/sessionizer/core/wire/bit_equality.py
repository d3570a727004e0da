"""Equality of Arrow arrays bit by bit, so that an event that was packed and opened again is proven to be the same."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sessionizer.core.wire.alignment import align_table

_BITS: Final = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def holds_same(given: pa.Table, found: pa.Table) -> bool:
    """Whether two tables of events are the same. ``found`` lacks the columns that its events came without."""
    again = align_table(found, given.schema)
    columns = zip(given.columns, again.columns, strict=True)
    return all(is_identical(before.combine_chunks(), now.combine_chunks()) for before, now in columns)


def is_identical(one: pa.Array, other: pa.Array) -> bool:
    """Whether both arrays are of one type and equal bit by bit. Arrow's own comparison treats NaNs as unequal."""
    if one.equals(other):
        return True
    same_places = one.type == other.type and one.is_valid().equals(other.is_valid())
    return same_places and _has_identical_parts(one, other)


def _has_identical_parts(one: pa.Array, other: pa.Array) -> bool:
    kind = one.type
    if kind in _BITS:
        return bool(one.fill_null(0).view(_BITS[kind]).equals(other.fill_null(0).view(_BITS[kind])))
    if pa.types.is_struct(kind):
        return all(map(is_identical, one.flatten(), other.flatten()))
    if pa.types.is_map(kind):
        entries = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        return is_identical(one.cast(entries), other.cast(entries))
    if pa.types.is_list(kind):
        same_lengths = pc.list_value_length(one).equals(pc.list_value_length(other))
        return same_lengths and is_identical(one.flatten(), other.flatten())
    return False
