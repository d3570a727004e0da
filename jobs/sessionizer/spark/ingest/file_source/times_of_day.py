"""Texts that are only a time of day, in columns that a parser of Spark reads as timestamps.

Spark makes ``10:00`` a moment of the day on which it is read. The parsed value no longer shows it. A record that may
have such a text is therefore parsed once more, with texts in place of timestamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, TimestampType

from sessionizer.spark.ingest.years import find_in_parts
from sessionizer.stream_spec.sql_guard import TIME_OF_DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column

BEGINS: Final = r"[\x00-\x20\x7f]*(?:T[0-9]|[0-9]{1,2}:)"
"""Pattern of how such a text begins."""
_FORMAT: Final = "timestampformat"


def find_times_of_day(
    columns: StructType, options: Mapping[str, str], may_have: Column, parse: Callable[[StructType], Column]
) -> Column:
    """Find records with a time of day in place of a timestamp of ``columns``.

    ``may_have``: false for a record that needs no second look. ``parse`` makes a struct of the given columns.
    """
    has_format = _FORMAT in {name.lower() for name in options}

    def is_time(text: Column, kind: DataType) -> Column | None:
        if not isinstance(kind, TimestampType):
            return None
        found = F.rlike(text, F.lit(TIME_OF_DAY))
        # a format may begin with hours
        return F.coalesce(found & text.cast("timestamp").isNotNull() if has_format else found, F.lit(False))  # noqa: FBT003  lit has no keyword

    found = find_in_parts(parse(replace_timestamps(columns)), columns, is_time)
    return F.lit(False) if found is None else may_have & found  # noqa: FBT003  lit has no keyword


def find_in_folders(columns: StructType) -> Column:
    """Find rows of a folder such as ``at=10%3A00``, whose name gives the value of a timestamp of ``columns``."""
    names = "|".join(rf"\Q{field.name}\E" for field in columns if isinstance(field.dataType, TimestampType))
    path = F.regexp_replace(F.col("_metadata.file_path"), "%(25)?3A", ":")
    begins = F.lit(rf"(?i)/(?:{names})=(?:%(?:25)?(?:[01][0-9a-f]|20|7f))*{BEGINS}")
    return F.rlike(path, begins) if names else F.lit(False)  # noqa: FBT003  lit has no keyword


def replace_timestamps(columns: StructType) -> StructType:
    """Return the columns with texts in place of timestamps."""
    return StructType([StructField(field.name, _replaced(field.dataType)) for field in columns])


def _replaced(kind: DataType) -> DataType:
    match kind:
        case TimestampType():
            return StringType()
        case StructType():
            return replace_timestamps(kind)
        case ArrayType():
            return ArrayType(_replaced(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _replaced(kind.valueType))
    return kind
