"""SQL expressions of a stream spec, checked before anything starts and unable to kill a stream once it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException, ParseException

from sessionizer.errors import InvalidSpec
from sessionizer.spark.ingest.payload_types import not_kept
from sessionizer.spark.ingest.permitted import is_window, require_deterministic, require_own_row, require_repeatable
from sessionizer.spark.internals.java_errors import first_line
from sessionizer.spark.internals.trying import never_failing
from sessionizer.stream_spec.expression_rules import SAME_EACH_TIME, shown_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_CHECKED: Final = "_checked"
VARIES: Final = "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"
"""Spark's error class for an input that varies by itself."""


def checked_type(rows: DataFrame, field: str, sql: str) -> DataType:
    """Return the type of ``sql`` over ``rows``.

    Raises InvalidSpec naming ``field`` if it gives no value for each row.
    """
    try:
        require_own_row(rows.sparkSession, field, sql, rows.columns)
        if is_window(rows.sparkSession, sql):
            raise InvalidSpec(field, sql, "an expression over the row alone, with no window")
        # beside the other columns and in the wrapping it will run in: no place for an aggregate or a generator
        beside = rows.select("*", never_failing(rows.sparkSession, sql).alias(_CHECKED))
        found = beside.schema[_CHECKED].dataType
        require_repeatable(rows, beside, field, sql)
        require_deterministic(rows, sql)
    except ParseException as error:
        raise InvalidSpec(field, sql, f"a Spark SQL expression ({first_line(error)})") from error
    except AnalysisException as error:
        if error.getCondition() == VARIES:
            raise InvalidSpec(field, sql, f"{SAME_EACH_TIME} {sql}") from error
        allowed = f"an expression over {shown_columns(rows.columns)} ({first_line(error)})"
        raise InvalidSpec(field, sql, allowed) from error
    return found


def require_keepable(rows: DataFrame, field: str, sql: str) -> DataType:
    """Return the type of ``sql``, which Arrow and Delta must both be able to keep.

    Raises InvalidSpec naming ``field``.
    """
    found = checked_type(rows, field, sql)
    if not_kept(found) is not None:
        example = "Cast it, for example cast(... as string)"
        raise InvalidSpec(field, sql, f"a type that can be kept, not {found.simpleString()}. {example}")
    return found


def require_type(rows: DataFrame, field: str, sql: str, allowed: tuple[str, ...], example: str) -> DataType:
    """Return the type of ``sql``, whose short name must be one of ``allowed``. Raises InvalidSpec naming ``field``."""
    found = checked_type(rows, field, sql)
    if found.typeName() not in allowed:
        raise InvalidSpec(field, sql, f"{' or '.join(allowed)}, not {found.simpleString()}. {example}")
    return found
