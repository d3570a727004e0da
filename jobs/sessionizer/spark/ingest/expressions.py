"""SQL expressions of a stream spec, checked before anything starts and unable to kill a stream once it runs.

Not every reader of the tables has a value for days and instants outside of the years 1 to 9999. A Delta table notes the
least and the greatest of a column. With one day of the year 10000 among them ``deltalake`` reads no row of the table.
"""

import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Final, TypeAlias

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sessionizer.errors import InvalidSpec
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.internals.trying import ReadsClock, try_expression
from sessionizer.stream_spec.sql_guard import SAME_EACH_TIME, Scope, refuse_sql, show_columns

_TEXT: Final = (T.StringType, T.CharType, T.VarcharType)
_KEPT: Final = (*_TEXT, T.BinaryType, T.BooleanType, T.NumericType, T.DateType, T.TimestampType, T.TimestampNTZType)


def normalize_type(found: T.DataType) -> T.DataType:
    """Drop the parts of a type that an expression knows beyond its values.

    Parts that are never null, as of ``array(1, 2)``: Delta has no such constraint inside an array. Text with a
    collation, a fixed or a greatest length: Arrow knows text only. A timestamp without a time zone: it is shown in UTC,
    because Delta adds no such column to a table that has none.
    """
    if isinstance(found, T.StructType):
        return T.StructType([T.StructField(field.name, normalize_type(field.dataType)) for field in found])
    if isinstance(found, T.ArrayType):
        return T.ArrayType(normalize_type(found.elementType))
    if isinstance(found, T.MapType):
        return T.MapType(normalize_type(found.keyType), normalize_type(found.valueType))
    if isinstance(found, T.TimestampNTZType):
        return T.TimestampType()
    return T.StringType() if isinstance(found, _TEXT) else found


def not_kept(found: T.DataType) -> T.DataType | None:
    """Return the part of ``found`` that Arrow or Delta has no column for, such as an interval, or None."""
    match found:
        case T.StructType() if len(found):
            parts = [field.dataType for field in found]
        case T.ArrayType():
            parts = [found.elementType]
        case T.MapType():
            parts = [found.keyType, found.valueType]
        case _:
            return None if isinstance(found, _KEPT) else found
    return next((part for part in map(not_kept, parts) if part is not None), None)


_Find: TypeAlias = "Callable[[Column, T.DataType], Column | None]"
_CHECKED: Final = "_checked"
VARIES: Final = "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"
"""Spark's error class for an input that varies by itself."""


def require_permitted(rows: DataFrame, field: str, sql: str, *, measure: bool = False) -> None:
    """Raise InvalidSpec naming ``field`` if ``sql`` may not be resolved over ``rows``: resolving opens files."""
    columns = {column.name: column.dataType.simpleString() for column in rows.schema}
    if (allowed := refuse_sql(sql, Scope(columns, measure))) is not None:
        raise InvalidSpec(field, sql, allowed)


def reads_clock(field: str, sql: str, error: ReadsClock) -> InvalidSpec:
    """Return the refusal of an expression that makes a moment of a text by the clock."""
    because = "because Spark reads a text such as 'now' or '10:00' by the clock"
    allowed = f"{SAME_EACH_TIME} {error.part}, {because}. Use try_to_timestamp of a column's text in a mapping"
    return InvalidSpec(field, sql, allowed)


def check_type(rows: DataFrame, field: str, sql: str) -> T.DataType:
    """Return the type of ``sql``. Raises InvalidSpec naming ``field`` if it gives no value for each row."""
    require_permitted(rows, field, sql)
    try:
        # beside the other columns and in the wrapping it will run in: no place for an aggregate or a generator
        found = rows.select("*", try_expression(rows, sql).alias(_CHECKED)).schema[_CHECKED].dataType
        # an aggregate takes no input that varies: a second look at what the guard let through
        _ = rows.groupBy().agg(F.first(F.expr(sql))).schema
    except ReadsClock as error:
        raise reads_clock(field, sql, error) from error
    except (ParseException, JavaError) as error:  # for some texts Spark's parser lacks the words of its refusal
        raise InvalidSpec(field, sql, f"a Spark SQL expression ({java_message(error)})") from error
    except AnalysisException as error:
        if error.getCondition() == VARIES:
            raise InvalidSpec(field, sql, f"{SAME_EACH_TIME} {sql}") from error
        allowed = f"an expression over {show_columns(rows.columns)} ({java_message(error)})"
        raise InvalidSpec(field, sql, allowed) from error
    return found


def is_same_expression(rows: DataFrame, one: str, other: str) -> bool:
    """Whether Spark analyses two texts over ``rows`` to the same expression of the same type. In doubt they differ."""
    scope = Scope({column.name: column.dataType.simpleString() for column in rows.schema})
    if any(refuse_sql(sql, scope) is not None for sql in (one, other)):
        return False
    try:
        first, second = (rows.select(F.expr(sql).alias(_CHECKED)) for sql in (one, other))
        return first.schema == second.schema and first.sameSemantics(second)
    except (ParseException, AnalysisException, JavaError):
        return False


def require_keepable(rows: DataFrame, field: str, sql: str) -> T.DataType:
    """Return the type of ``sql``. Raises InvalidSpec naming ``field`` if Arrow or Delta cannot keep it."""
    found = check_type(rows, field, sql)
    if not_kept(found) is not None:
        example = "Cast it, for example cast(... as string)"
        raise InvalidSpec(field, sql, f"a type that can be kept, not {found.simpleString()}. {example}")
    return found


def require_type(rows: DataFrame, field: str, sql: str, allowed: tuple[str, ...], example: str) -> T.DataType:
    """Return the type of ``sql``, whose short name must be one of ``allowed``. Raises InvalidSpec naming ``field``."""
    found = check_type(rows, field, sql)
    if found.typeName() not in allowed:
        raise InvalidSpec(field, sql, f"{' or '.join(allowed)}, not {found.simpleString()}. {example}")
    return found


def find_beyond_years(column: Column, kind: T.DataType) -> Column | None:
    """Find values of ``kind`` with a part outside of the years 1 to 9999. None for a kind without such parts."""
    return find_in_parts(column, kind, _beyond_years)


def find_in_parts(column: Column, kind: T.DataType, find: _Find) -> Column | None:
    """Find values of ``kind`` with a part for which ``find`` is true. None if it is None for every part."""
    if isinstance(kind, T.StructType):
        return _any(find_in_parts(column.getField(field.name), field.dataType, find) for field in kind)
    if isinstance(kind, T.ArrayType):
        return _find_in_elements(column, kind.elementType, find)
    if isinstance(kind, T.MapType):
        keys, values = F.map_keys(column), F.map_values(column)
        return _any((_find_in_elements(keys, kind.keyType, find), _find_in_elements(values, kind.valueType, find)))
    return find(column, kind)


def _beyond_years(column: Column, kind: T.DataType) -> Column | None:
    if isinstance(kind, T.DateType):
        first, last = F.expr("date'0001-01-01'"), F.expr("date'9999-12-31'")
    elif isinstance(kind, T.TimestampType | T.TimestampNTZType):
        column = column.cast("timestamp")
        first, last = F.expr("timestamp'0001-01-01 00:00:00Z'"), F.expr("timestamp'9999-12-31 23:59:59.999999Z'")
    else:
        return None
    return F.coalesce((column < first) | (column > last), F.lit(False))  # noqa: FBT003  lit has no keyword


def _find_in_elements(column: Column, kind: T.DataType, find: _Find) -> Column | None:
    if find_in_parts(F.lit(None), kind, find) is None:
        return None

    def is_found(element: Column) -> Column:
        found = find_in_parts(element, kind, find)
        return F.lit(False) if found is None else found  # noqa: FBT003  lit has no keyword

    return F.coalesce(F.exists(column, is_found), F.lit(False))  # noqa: FBT003  lit has no keyword


def _any(conditions: Iterable[Column | None]) -> Column | None:
    found = [condition for condition in conditions if condition is not None]
    return reduce(operator.or_, found) if found else None
