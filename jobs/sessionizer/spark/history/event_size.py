"""Size of events in bytes, in SQL, as the cap ``max_bytes`` counts them (``core.event.Event.size``)."""

from __future__ import annotations

import operator
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from sessionizer.core.definition.event import BYTES_OF_VALUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame


def event_size(events: DataFrame, payload: str) -> Column:
    """Return the bytes of key, client, event id and, if there is one, each field of the struct ``payload``."""
    ours = [_size(F.col(name), StringType()) for name in ("key", "client", "event_id")]
    kept = events.schema[payload].dataType if payload in events.columns else StructType()
    assert isinstance(kept, StructType)  # noqa: S101  by the contract of the batch path
    fields = [_size(F.col(payload)[field.name], field.dataType) for field in kept]
    return _sum([*ours, *fields])


def _size(value: Column, kind: DataType) -> Column:
    within = F.lit(0)
    if isinstance(kind, StringType | BinaryType):
        within = F.octet_length(value)
    elif isinstance(kind, ArrayType):
        within = _sum_elements(value, kind.elementType)
    elif isinstance(kind, MapType):
        keys, values = F.map_keys(value), F.map_values(value)
        entries = F.size(keys) * BYTES_OF_VALUE
        within = entries + _sum_elements(keys, kind.keyType) + _sum_elements(values, kind.valueType)
    elif isinstance(kind, StructType):
        fields = [_size(value[field.name], field.dataType) for field in kind]
        within = _sum(fields)
    size = F.lit(BYTES_OF_VALUE).cast("bigint") + within
    return F.when(value.isNotNull(), size).otherwise(F.lit(0).cast("bigint"))


def _sum_elements(elements: Column, kind: DataType) -> Column:
    return F.aggregate(elements, F.lit(0).cast("bigint"), lambda total, element: total + _size(element, kind))


def _sum(sizes: list[Column]) -> Column:
    add: Callable[[Column, Column], Column] = operator.add
    return reduce(add, sizes, F.lit(0).cast("bigint"))
