"""Values of any column as plain Python, and the text by which two of them are compared.

Arrow's ``to_pylist`` fails at the first instant that ``datetime`` cannot hold, which is any outside the years 1 to
9999. Here instants, days and times are counts in the unit of their column, a struct is a dict, a map a list of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from math import isnan
from typing import Any

import pyarrow as pa


def plain_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a plain value for each row."""
    if isinstance(values, pa.ChunkedArray):
        return [value for chunk in values.chunks for value in plain_values(chunk)]
    kind = values.type
    if pa.types.is_struct(kind):
        parts = zip(*map(plain_values, values.flatten()), strict=True) if len(kind) else [()] * len(values)
        names = [field.name for field in kind]
        return _unless_null(values, [dict(zip(names, row, strict=True)) for row in parts])
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        is_map = pa.types.is_map(kind)
        pairs = zip(plain_values(values.keys), plain_values(values.items), strict=True) if is_map else ()
        elements = list(pairs) if is_map else plain_values(values.values)
        spans = pairwise(values.offsets.to_pylist())
        return _unless_null(values, [elements[start:end] for start, end in spans])
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        values = values.cast(pa.int64())
    plain: list[Any] = values.to_pylist()
    return plain


def _unless_null(values: pa.Array, plain: Sequence[Any]) -> list[Any]:
    return [value if valid else None for value, valid in zip(plain, values.is_valid().to_pylist(), strict=True)]


def format_value(value: Any) -> str:  # noqa: ANN401  what a column may hold
    """Return the text of a plain value. Two values are the same if their texts are.

    So NaN equals NaN, and minus zero equals zero. A null field of a struct equals a missing one. The order of fields
    and the zeros at the end of a decimal do not count.
    """
    if isinstance(value, dict):
        fields = (f"{name!r}: {format_value(part)}" for name, part in sorted(value.items()) if part is not None)
        return f"{{{', '.join(fields)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return repr(value + 0.0 if isinstance(value, float) else value)


def order_of(value: Any) -> tuple[Any, ...]:  # noqa: ANN401  what a column may hold
    """Return a sort key within a column: nulls first, then values, then NaN.

    Lists are compared part by part, structs field by field in the order of the fields' names.
    """
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, tuple(order_of(part) for _, part in sorted(value.items())))
    if isinstance(value, list | tuple):
        return (1, tuple(map(order_of, value)))
    return (2,) if isinstance(value, float) and isnan(value) else (1, value)
