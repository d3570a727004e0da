"""The type in which a payload column is kept: what Spark finds, as the state and the tables can have it."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType


def as_kept(found: DataType) -> DataType:
    """Without what an expression knows beyond its values.

    Parts that are never null, as of ``array(1, 2)``: Delta has no such constraint inside an array. Text with a
    collation, a fixed or a greatest length: Arrow knows text only.
    """
    if isinstance(found, StructType):
        return StructType([StructField(field.name, as_kept(field.dataType)) for field in found])
    if isinstance(found, ArrayType):
        return ArrayType(as_kept(found.elementType))
    if isinstance(found, MapType):
        return MapType(as_kept(found.keyType), as_kept(found.valueType))
    return StringType() if isinstance(found, StringType) else found
