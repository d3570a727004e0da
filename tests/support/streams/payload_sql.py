"""The payloads of ``payloads`` in SQL, as a mapping would have them."""

from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from support.streams.payloads import COLUMNS, fitting


def as_sql(name: str, kind: pa.DataType, number: str) -> str:
    """The value of the catalogue's column ``name`` that ``number``, an SQL expression, picks: null first."""
    values = [_literal(fitting(value, kind), kind) for value in (None, *COLUMNS[name].values)]
    return f"element_at(array({', '.join(values)}), {number} % {len(values)} + 1)"


def _literal(value: Any, kind: pa.DataType) -> str:
    return f"cast({_bare_literal(value, kind)} as {from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString()})"


def _bare_literal(value: Any, kind: pa.DataType) -> str:
    if pa.types.is_struct(kind) and value is not None:
        return _call("named_struct", *(f"'{field.name}', {_literal(value[field.name], field.type)}" for field in kind))
    if pa.types.is_map(kind) and value is not None:
        entries = (f"{_literal(key, kind.key_type)}, {_literal(part, kind.item_type)}" for key, part in value)
        return _call("map", *entries)
    if pa.types.is_list(kind) and value is not None:
        return _call("array", *(_literal(part, kind.value_type) for part in value))
    return "null" if value is None else _bare_scalar(value, kind)


def _bare_scalar(value: Any, kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return _call("timestamp_micros", str(value))
    if pa.types.is_date(kind):
        return _call("date_from_unix_date", str(value))
    if isinstance(value, str | bytes):
        return _call("unhex", repr((value.encode() if isinstance(value, str) else value).hex()))
    return f"'{value}'"


def _call(function: str, *arguments: str) -> str:
    return f"{function}({', '.join(arguments)})"
