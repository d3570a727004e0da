"""Parquet files with values that the declared types do not hold.

Spark takes an unsigned or a longer integer for a shorter one, and wraps its values around. Or it fails where each value
is read, which an expression cannot tell from a failure of its own. So the types are compared before rows are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sessionizer.spark.ingest.file_source.file_sizes import local_path, path_for_reader
from sessionizer.spark.ingest.file_source.lines import parse_column_schema
from sessionizer.spark.internals.java_errors import JavaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from sessionizer.stream_spec.document.source import FilesSource


class _Nanoseconds(DataType):
    """Moments in nanoseconds, which Spark reads as whole numbers only."""


_LARGEST: Final = DecimalType(20, 0)
_BITS: Final[dict[DataType, int]] = {
    ByteType(): 7, ShortType(): 15, IntegerType(): 31, LongType(): 63, _LARGEST: 64,
}  # fmt: skip
"""Bits of the greatest value of each type of whole numbers. The last is how Spark reads unsigned ones of 64 bits."""
_HELD_BY: Final = {
    pa.int8(): ByteType(), pa.int16(): ShortType(), pa.int32(): IntegerType(), pa.int64(): LongType(),
    pa.uint8(): ShortType(), pa.uint16(): IntegerType(), pa.uint32(): LongType(), pa.uint64(): _LARGEST,
    pa.timestamp("ns"): _Nanoseconds(),
}  # fmt: skip
"""The shortest type of Spark that holds all values of a type of Arrow."""


def find_unfit_types(spark: SparkSession, source: FilesSource, uris: Sequence[str]) -> dict[str, str]:
    """Find the Parquet files with values that a column of ``source`` does not hold, each with the first such column."""
    if source.encoding != "parquet":
        return {}
    columns = parse_column_schema(source.columns)
    here = {uri: path for uri in uris if (path := local_path(uri)) is not None}
    problems = {uri: find_unfit_column(columns, _schema_here(str(path))) for uri, path in here.items()}
    elsewhere = [uri for uri in uris if uri not in here]
    if elsewhere and find_unfit_column(columns, _schema_elsewhere(spark, *elsewhere)) is not None:
        problems |= {uri: find_unfit_column(columns, _schema_elsewhere(spark, uri)) for uri in elsewhere}
    return {uri: problem for uri, problem in problems.items() if problem is not None}


def find_unfit_column(declared: DataType, found: DataType, place: str = "") -> str | None:
    """Return the first part of ``declared`` that does not hold all values of ``found``, None if there is none."""
    match declared, found:
        case StructType(), StructType():
            by_name = {field.name.lower(): field.dataType for field in found}
            parts = ((f.name, f.dataType, by_name.get(f.name.lower(), NullType())) for f in declared)
            inside = (find_unfit_column(one, other, f"{place}.{name}".strip(".")) for name, one, other in parts)
            return next((problem for problem in inside if problem), None)
        case ArrayType(), ArrayType():
            return find_unfit_column(declared.elementType, found.elementType, f"{place}[]")
        case MapType(), MapType():
            return find_unfit_column(declared.valueType, found.valueType, f"{place}[]")
        case TimestampType() | TimestampNTZType(), _Nanoseconds():
            return f"{place} is in nanoseconds. Declare it bigint, and use timestamp_micros({place} div 1000)"
    bits, held = _BITS.get(found, 0), _BITS.get(declared)
    least = 0 if isinstance(declared, DateType) else _BITS[IntegerType()]
    is_inexact = isinstance(declared, FloatType | DoubleType | DateType) and bits > least
    if is_inexact or (held is not None and bits > held):
        kind = found.simpleString()
        return (
            f"{place} has values of type {kind} where source.columns has {declared.simpleString()}. Declare it {kind}"
        )
    return None


def _schema_elsewhere(spark: SparkSession, *uris: str) -> DataType:
    try:
        return spark.read.option("mergeSchema", "true").parquet(*map(path_for_reader, uris)).schema
    except (PySparkException, JavaError):
        return NullType()  # the query that reads them reports the error


def _schema_here(path: str) -> DataType:
    try:
        return _held(pa.struct(list(pq.read_schema(path))))
    except (OSError, pa.ArrowException):
        return NullType()  # the query that reads it reports the error


def _held(kind: pa.DataType) -> DataType:
    """Return the type of Spark for whole numbers and nanoseconds in ``kind``, ``NullType`` for all else."""
    if pa.types.is_dictionary(kind):
        return _held(kind.value_type)
    if pa.types.is_struct(kind):
        fields = StructType()
        for field in kind:
            fields = fields.add(field.name, _held(field.type))
        return fields
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ArrayType(_held(kind.value_type))
    if pa.types.is_map(kind):
        return MapType(_held(kind.key_type), _held(kind.item_type))
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp(kind.unit)
    return _HELD_BY.get(kind, NullType())
