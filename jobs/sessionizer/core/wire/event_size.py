"""Sizes of events in bytes, on columns, as the cap ``max_bytes`` counts them (``event.Event.size``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sessionizer.core.definition.event import BYTES_OF_VALUE
from sessionizer.core.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.core.definition.rules import Caps

Sizes = NDArray[np.int64]

_OURS: Final = (schema.KEY, schema.CLIENT, schema.EVENT_ID)


def sizes_that_count(events: pa.Table, caps: Iterable[Caps]) -> Sizes | None:
    """Return the size of each event in bytes, or None if no cap on bytes can be reached.

    That is so if no cap counts bytes, or if all events together are smaller than the lowest cap.
    """
    max_bytes = min((each.max_bytes for each in caps if each.max_bytes is not None), default=None)
    if max_bytes is None:
        return None
    counted = events.select([name for name in events.column_names if name in _OURS or name.startswith(schema.PAYLOAD)])
    plain = not any(pa.types.is_nested(column.type) for column in counted.schema)
    if plain and counted.nbytes + BYTES_OF_VALUE * events.num_rows * counted.num_columns < max_bytes:
        return None
    sizes = np.zeros(events.num_rows, np.int64)
    for column in counted.columns:
        sizes += np.concatenate([np.empty(0, np.int64), *map(sizes_of_values, column.chunks)])
    return sizes


def sizes_of_values(values: pa.Array) -> Sizes:
    """Return the size of each value in bytes, with its parts.

    Null counts 0, so a column that an event came without counts 0.
    """
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    sizes = np.where(valid, BYTES_OF_VALUE, 0)
    kind = values.type
    if pa.types.is_struct(kind):
        within = sum((sizes_of_values(part) for part in values.flatten()), np.zeros(len(values), np.int64))
    elif isinstance(kind, pa.MapType):
        within = _sum_elements(values, BYTES_OF_VALUE + sizes_of_values(values.keys) + sizes_of_values(values.items))
    elif isinstance(kind, pa.ListType | pa.LargeListType):
        within = _sum_elements(values, sizes_of_values(values.values))
    elif _has_bytes(kind):
        sizes += pc.binary_length(values).fill_null(0).to_numpy()
        return sizes
    else:
        return sizes
    sizes += np.where(valid, within, 0)
    return sizes


def _has_bytes(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary
    ))  # fmt: skip


def _sum_elements(lists: pa.Array, elements: Sizes) -> Sizes:
    """Return the sum over each list's elements."""
    up_to = np.concatenate([[0], np.cumsum(elements)])
    offsets = lists.offsets.to_numpy()
    sums: Sizes = up_to[offsets[1:]] - up_to[offsets[:-1]]
    return sums
