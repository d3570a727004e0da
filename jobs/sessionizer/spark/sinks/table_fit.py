"""Check that an existing table can take a shape's rows, and which columns it lacks: by types, nothing is read.

Delta writes rows by name, whatever the order of columns and of the fields of a struct, and fills in null for a column
that a row does not have. It never takes another type, unless the table's owner has turned on type widening, which many
readers of Delta tables do not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from sessionizer.core.wire.alignment import Unfit, unfit, unite_schemas
from sessionizer.errors import InvalidSpec
from sessionizer.spark.ingest.guard import arrow_fields
from sessionizer.spark.ingest.kept_types import sql_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import StructField

    from sessionizer.spark.sinks.table_shapes import TableShape


def require_fit(shape: TableShape, existing: StructType, location: str, may_widen: Callable[[], bool]) -> None:
    """Raise InvalidSpec for a column of ``shape`` that the table has with a type that it cannot take.

    ``may_widen``: whether the table may change a type for a wider one.
    """
    for column in shape.columns:
        if column.name not in existing.names:
            continue
        was, now = (arrow_fields(StructType([one]))[0].type for one in (existing[column.name], column))
        never, unless_widened = unfit(was, now), unfit(now, was)
        if never is not None:
            raise _refusal(shape, column, never, location, never=True)
        if unless_widened is not None and not may_widen():
            path, wider, narrower = unless_widened
            raise _refusal(shape, column, Unfit(path, narrower, wider), location, never=False)


def _refusal(shape: TableShape, column: StructField, found: Unfit, location: str, *, never: bool) -> InvalidSpec:
    path = found.path
    if column.name == "events" and len(path) > 1:  # of the struct that is an element of it
        field, path = f"mapping.payload.{path[1]}", path[2:]
    else:
        field = f"{shape.given_by.get(column.name, f'sink.{shape.name}')}.{column.name}"
    inside = f" at {'.'.join(path)}" if path else ""
    allowed = f"{sql_type(found.before)}{inside}, the type in the table {shape.name}, or give another name or sink.path"
    if not never:
        allowed += f". If all readers know type widening, run `alter table delta.`{location}` set tblproperties "
        allowed += "('delta.enableTypeWidening' = 'true')`, so that the table takes the wider type"
    return InvalidSpec(field, sql_type(found.now), allowed)


def lacks(existing: StructType, shape: TableShape) -> bool:
    """Whether the table must get a column, a field of a struct or a wider type before it takes rows of ``shape``."""
    shared = StructType([existing[column.name] for column in shape.columns if column.name in existing.names])
    has = pa.schema(arrow_fields(shared))
    both = unite_schemas(has, pa.schema(arrow_fields(shape.columns)))
    return any(name not in has.names or not has.field(name).type.equals(both.field(name).type) for name in both.names)
