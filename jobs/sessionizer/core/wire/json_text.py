"""Rows of any types as JSON, the form in which a quarantined event is shown.

The rules are those of Spark's ``to_json``: nulls are omitted, bytes are Base64, instants are ISO 8601, and numbers
that JSON cannot express are text. Decimals are text too, because a reader of JSON numbers would round them.
"""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from sessionizer.core.definition.plain_values import plain_values


def json_objects(table: pa.Table) -> list[str]:
    """Return each row as the text of a JSON object."""
    columns = {
        field.name: [_jsonable(value, field.type) for value in plain_values(table.column(field.name))]
        for field in table.schema
    }
    return [_object(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def _object(row: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in row.items() if value is not None}, sort_keys=True)


def _jsonable(value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401  what a column may hold
    """Return a plain value of ``kind`` as a value that JSON can express."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = {field.name: _jsonable(value[field.name], field.type) for field in kind}
        return {name: part for name, part in fields.items() if part is not None}
    if pa.types.is_map(kind):
        return {_key(_jsonable(key, kind.key_type)): _jsonable(part, kind.item_type) for key, part in value}
    if pa.types.is_list(kind):
        return [_jsonable(part, kind.value_type) for part in value]
    return _scalar(value, kind)


def _key(value: Any) -> str:  # noqa: ANN401  what a map's key may be
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


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
    instant = _instant(count, kind)
    if pa.types.is_time(kind):
        return instant.partition("T")[2]
    return f"{instant}Z" if kind.tz else instant


def _instant(count: int, kind: pa.DataType) -> str:
    """Format an instant. Microseconds go by way of milliseconds, because the least count is NaT to numpy."""
    if kind.unit != "us":
        return str(np.datetime64(count, kind.unit))
    return f"{np.datetime64(count // 1000, 'ms')}{count % 1000:03}"
