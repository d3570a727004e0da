"""How large events are, in bytes, on columns: what the cap ``max_bytes`` counts (``event.Event.size``)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sessionizer.core import schema
from sessionizer.core.event import BYTES_OF_VALUE

Sizes = NDArray[np.int64]

_OURS: Final = (schema.KEY, schema.CLIENT, schema.EVENT_ID)


def sizes_that_count(events: pa.Table, max_bytes: int | None) -> Sizes | None:
    """The size of each event; None where they cannot come to ``max_bytes`` even together, which is soon found out."""
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
    """The size of each value with all that is in it."""
    sizes = np.full(len(values), BYTES_OF_VALUE, np.int64)
    kind = values.type
    if pa.types.is_struct(kind):
        within = sum((sizes_of_values(part) for part in values.flatten()), np.zeros(len(values), np.int64))
    elif isinstance(kind, pa.MapType):
        within = _of_each(values, sizes_of_values(values.keys) + sizes_of_values(values.items))
    elif isinstance(kind, pa.ListType | pa.LargeListType):
        within = _of_each(values, sizes_of_values(values.values))
    elif _has_bytes(kind):
        sizes += pc.binary_length(values).fill_null(0).to_numpy()
        return sizes
    else:
        return sizes
    sizes += np.where(values.is_valid().to_numpy(zero_copy_only=False), within, 0)
    return sizes


def _has_bytes(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary
    ))  # fmt: skip


def _of_each(lists: pa.Array, elements: Sizes) -> Sizes:
    """The sum over each list's elements."""
    up_to = np.concatenate([[0], np.cumsum(elements)])
    offsets = lists.offsets.to_numpy()
    sums: Sizes = up_to[offsets[1:]] - up_to[offsets[:-1]]
    return sums
