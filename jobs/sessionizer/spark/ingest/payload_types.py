"""The type in which a payload column is kept: Spark's type in a form that Arrow, the state and the tables support."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

_TEXT: Final = (StringType, CharType, VarcharType)
_KEPT: Final = (*_TEXT, BinaryType, BooleanType, NumericType, DateType, TimestampType, TimestampNTZType)


def normalize_type(found: DataType) -> DataType:
    """Drop the parts of a type that an expression knows beyond its values.

    Parts that are never null, as of ``array(1, 2)``: Delta has no such constraint inside an array. Text with a
    collation, a fixed or a greatest length: Arrow knows text only. A timestamp without a time zone: it is shown in UTC,
    because Delta adds no such column to a table that has none.
    """
    if isinstance(found, StructType):
        return StructType([StructField(field.name, normalize_type(field.dataType)) for field in found])
    if isinstance(found, ArrayType):
        return ArrayType(normalize_type(found.elementType))
    if isinstance(found, MapType):
        return MapType(normalize_type(found.keyType), normalize_type(found.valueType))
    if isinstance(found, TimestampNTZType):
        return TimestampType()
    return StringType() if isinstance(found, _TEXT) else found


def not_kept(found: DataType) -> DataType | None:
    """Return the part of ``found`` that Arrow or Delta has no column for, such as an interval.

    None if there is none.
    """
    if isinstance(found, StructType):
        return _first_not_kept(*(field.dataType for field in found)) if len(found) else found
    if isinstance(found, ArrayType):
        return not_kept(found.elementType)
    if isinstance(found, MapType):
        return _first_not_kept(found.keyType, found.valueType)
    return None if isinstance(found, _KEPT) else found


def _first_not_kept(*parts: DataType) -> DataType | None:
    return next((found for found in map(not_kept, parts) if found is not None), None)
