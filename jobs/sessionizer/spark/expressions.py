"""SQL expressions of a stream spec, checked before anything starts and unable to kill a stream once it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from sessionizer.errors import InvalidSpec
from sessionizer.spark.java_class import java_class, scala_object
from sessionizer.spark.payload_types import not_kept
from sessionizer.spark.permitted import require_own_row, require_repeatable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

_CHECKED: Final = "_checked"
_EXPRESSION_UTILS: Final = "org.apache.spark.sql.classic.ExpressionUtils"


def never_failing(spark: SparkSession, sql: str) -> Column:
    """The expression, null where evaluating it fails.

    Spark's own ``TryEval``, which backs its ``try_*`` functions, has no public name; without it
    ``timestamp_seconds(x)`` of one absurd x ends the stream, ANSI mode or not (docs/adr/0005).
    """
    return null_where_failing(F.expr(sql), spark)


def null_where_failing(column: Column, spark: SparkSession) -> Column:
    """``column``, null where evaluating it fails."""
    return column_of(spark, catalyst(spark, "TryEval")(_expression(spark, column)))


def is_utf8(spark: SparkSession, text: Column) -> Column:
    """Whether a string is valid UTF-8, null for null.

    That it is ASCII, as most are, is found out in less than half the time that ``is_valid_utf8`` takes.
    """
    boolean = scala_object(spark, "org.apache.spark.sql.types.BooleanType")
    no_arguments = scala_object(spark, "scala.collection.immutable.Nil")
    propagate_null, nullable, deterministic = True, True, True
    parts = (_expression(spark, text), "isFullAscii", boolean, no_arguments, no_arguments)
    is_ascii = catalyst(spark, "objects.Invoke")(*parts, propagate_null, nullable, deterministic)
    return column_of(spark, is_ascii) | F.is_valid_utf8(text)


def catalyst(spark: SparkSession, name: str) -> Any:  # noqa: ANN401  a Java class
    """The class of one of Spark's own expressions."""
    return java_class(spark, f"org.apache.spark.sql.catalyst.expressions.{name}")


def column_of(spark: SparkSession, expression: Any) -> Column:  # noqa: ANN401  a Java object
    """One of Spark's own expressions, which has no public name, as a column."""
    return ClassicColumn(java_class(spark, _EXPRESSION_UTILS).column(expression))


def _expression(spark: SparkSession, column: Column) -> Any:  # noqa: ANN401  a Java object
    return java_class(spark, _EXPRESSION_UTILS).expression(column._jc)  # noqa: SLF001  there is no public way


def checked_type(rows: DataFrame, field: str, sql: str) -> DataType:
    """The type ``sql`` has over ``rows``. Raises InvalidSpec naming ``field`` when it gives no value for each row."""
    try:
        require_own_row(rows.sparkSession, field, sql)
        # beside the other columns and in the wrapping it will run in: no place for an aggregate or a generator
        beside = rows.select("*", never_failing(rows.sparkSession, sql).alias(_CHECKED))
        found = beside.schema[_CHECKED].dataType
        if rows.isStreaming:
            _require_streamable(beside)
        require_repeatable(beside, field, sql)
    except ParseException as error:
        raise InvalidSpec(field, sql, f"a Spark SQL expression ({first_line(error)})") from error
    except AnalysisException as error:
        columns = ", ".join(name for name in rows.columns if not name.startswith("_"))
        raise InvalidSpec(field, sql, f"an expression over {columns} ({first_line(error)})") from error
    return found


def _require_streamable(rows: DataFrame) -> None:
    """Ask Spark what it would ask when the query starts. Raises AnalysisException, for a window function say."""
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001  there is no public way
    append = java_class(rows.sparkSession, "org.apache.spark.sql.streaming.OutputMode").Append()
    checker = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
    java_class(rows.sparkSession, checker).checkForStreaming(plan, append)


def require_keepable(rows: DataFrame, field: str, sql: str) -> DataType:
    """As ``checked_type``, of a type that Arrow and Delta both can keep."""
    found = checked_type(rows, field, sql)
    if not_kept(found) is not None:
        example = "cast it, for example cast(... as string)"
        raise InvalidSpec(field, sql, f"a type that can be kept, not {found.simpleString()}; {example}")
    return found


def require_type(rows: DataFrame, field: str, sql: str, allowed: tuple[str, ...], example: str) -> DataType:
    """As ``checked_type``, and the type's short name must be one of ``allowed``."""
    found = checked_type(rows, field, sql)
    if found.typeName() not in allowed:
        raise InvalidSpec(field, sql, f"{' or '.join(allowed)}, not {found.simpleString()}; {example}")
    return found


def first_line(error: PySparkException | Py4JJavaError) -> str:
    """What Spark (or Java below it) says, without the query plan and the stack behind it."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString()).splitlines()[0]
    return str(error).strip().splitlines()[0]
