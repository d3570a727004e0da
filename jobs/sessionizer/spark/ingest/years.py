"""Days and instants outside of the years 1 to 9999, for which not every reader of the tables has a value.

A Delta table notes the least and the greatest of a column. With one day of the year 10000 among them ``deltalake``
reads no row of the table.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StructType, TimestampNTZType, TimestampType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column

_DAYS: Final = ("date'0001-01-01'", "date'9999-12-31'")
_INSTANTS: Final = ("timestamp'0001-01-01 00:00:00Z'", "timestamp'9999-12-31 23:59:59.999999Z'")


def find_beyond_years(column: Column, kind: DataType) -> Column | None:
    """Find values of ``kind`` with a part outside of the years 1 to 9999. None for a kind without such parts."""
    return find_in_parts(column, kind, _beyond_years)


def find_in_parts(column: Column, kind: DataType, find: Callable[[Column, DataType], Column | None]) -> Column | None:
    """Find values of ``kind`` with a part for which ``find`` is true. None if it is None for every part."""
    if isinstance(kind, StructType):
        fields = (find_in_parts(column.getField(field.name), field.dataType, find) for field in kind)
        return _any(fields)
    if isinstance(kind, ArrayType):
        return _find_in_elements(column, kind.elementType, find)
    if isinstance(kind, MapType):
        keys, values = F.map_keys(column), F.map_values(column)
        return _any((_find_in_elements(keys, kind.keyType, find), _find_in_elements(values, kind.valueType, find)))
    return find(column, kind)


def _beyond_years(column: Column, kind: DataType) -> Column | None:
    if isinstance(kind, DateType):
        return _outside(column, _DAYS)
    if isinstance(kind, TimestampType | TimestampNTZType):
        return _outside(column.cast("timestamp"), _INSTANTS)
    return None


def _outside(column: Column, bounds: tuple[str, str]) -> Column:
    first, last = map(F.expr, bounds)
    return F.coalesce((column < first) | (column > last), F.lit(False))  # noqa: FBT003  lit has no keyword


def _find_in_elements(
    column: Column, kind: DataType, find: Callable[[Column, DataType], Column | None]
) -> Column | None:
    if find_in_parts(F.lit(None), kind, find) is None:
        return None

    def is_found(element: Column) -> Column:
        found = find_in_parts(element, kind, find)
        return F.lit(False) if found is None else found  # noqa: FBT003  lit has no keyword

    return F.coalesce(F.exists(column, is_found), F.lit(False))  # noqa: FBT003  lit has no keyword


def _any(conditions: Iterable[Column | None]) -> Column | None:
    found = [condition for condition in conditions if condition is not None]
    return reduce(operator.or_, found) if found else None
