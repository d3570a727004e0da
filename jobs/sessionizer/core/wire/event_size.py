"""Sizes of events in bytes, as the cap max_bytes counts them, and rows of any types as JSON, to show events.

The rules of the JSON are those of Spark's ``to_json``: nulls are omitted, bytes are Base64, instants are ISO 8601, and
numbers that JSON cannot express are text. Decimals are text too, because a reader of JSON numbers would round them.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sessionizer.core.definition.event import BYTES_OF_VALUE
from sessionizer.core.definition.plain_values import plain_values
from sessionizer.core.definition.rules import Caps
from sessionizer.core.wire import schema

Sizes = NDArray[np.int64]

_BYTES_OR_TEXT: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def sizes_that_count(events: pa.Table, caps: Iterable[Caps]) -> Sizes | None:
    """Return the size of each event in bytes, or None if no cap on bytes can be reached.

    That is so if no cap counts bytes, or if all events together are smaller than the lowest cap.
    """
    max_bytes = min((each.max_bytes for each in caps if each.max_bytes is not None), default=None)
    if max_bytes is None:
        return None
    ours = (schema.KEY, schema.CLIENT, schema.EVENT_ID)
    counted = events.select([name for name in events.column_names if name in ours or name.startswith(schema.PAYLOAD)])
    plain = not any(pa.types.is_nested(column.type) for column in counted.schema)
    if plain and counted.nbytes + BYTES_OF_VALUE * events.num_rows * counted.num_columns < max_bytes:
        return None
    return sizes_of_rows(counted)


def sizes_of_rows(table: pa.Table) -> Sizes:
    """Return the size of each row in bytes, over all columns of ``table``."""
    sizes = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
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
    elif kind in _BYTES_OR_TEXT:
        sizes += pc.binary_length(values).fill_null(0).to_numpy()
        return sizes
    else:
        return sizes
    sizes += np.where(valid, within, 0)
    return sizes


def _sum_elements(lists: pa.Array, elements: Sizes) -> Sizes:
    """Return the sum over each list's elements."""
    up_to = np.concatenate([[0], np.cumsum(elements)])
    offsets = lists.offsets.to_numpy()
    sums: Sizes = up_to[offsets[1:]] - up_to[offsets[:-1]]
    return sums


def json_objects(table: pa.Table) -> list[str]:
    """Return each row as the text of a JSON object."""
    columns = [[_jsonable(value, column.type) for value in plain_values(column)] for column in table.columns]
    rows = (zip(table.column_names, row, strict=True) for row in zip(*columns, strict=True))
    return [json.dumps({name: value for name, value in row if value is not None}, sort_keys=True) for row in rows]


def _jsonable(value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401  what a column may hold
    """Return a plain value of ``kind`` as a value that JSON can express."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = {field.name: _jsonable(value[field.name], field.type) for field in kind}
        return {name: part for name, part in fields.items() if part is not None}
    if pa.types.is_map(kind):
        parts = ((_jsonable(key, kind.key_type), _jsonable(part, kind.item_type)) for key, part in value)
        return {key if isinstance(key, str) else json.dumps(key, sort_keys=True): part for key, part in parts}
    if pa.types.is_list(kind):
        return [_jsonable(part, kind.value_type) for part in value]
    return _scalar(value, kind)


def _scalar(value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401  what a column may hold
    if pa.types.is_temporal(kind):
        return _moment(value, kind)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value


def _moment(count: int, kind: pa.DataType) -> str:
    """Format a day, time or instant with numpy, which knows every year that 64 bits can count to."""
    if pa.types.is_date(kind):
        return str(np.datetime64(count, "D"))
    if kind.unit == "us":  # by way of milliseconds, because the least count is NaT to numpy
        instant = f"{np.datetime64(count // 1000, 'ms')}{count % 1000:03}"
    else:
        instant = str(np.datetime64(count, kind.unit))
    if pa.types.is_time(kind):
        return instant.partition("T")[2]
    return f"{instant}Z" if kind.tz else instant
