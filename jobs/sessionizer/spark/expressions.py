"""SQL expressions of a stream spec, checked before anything starts and unable to kill a stream once it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from sessionizer.errors import InvalidSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType


def never_failing(spark: SparkSession, sql: str) -> Column:
    """The expression, null where evaluating it fails.

    Spark's own ``TryEval``, which backs its ``try_*`` functions, has no public name; without it
    ``timestamp_seconds(x)`` of one absurd x ends the stream, ANSI mode or not (docs/adr/0005).
    """
    jvm = spark.sparkContext._jvm  # noqa: SLF001  there is no public way
    assert jvm is not None  # noqa: S101  a classic session always has one
    bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
    expression = bridge.expression(F.expr(sql)._jc)  # noqa: SLF001
    return ClassicColumn(bridge.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(expression)))


def checked_type(rows: DataFrame, field: str, sql: str) -> DataType:
    """The type ``sql`` has over ``rows``. Raises InvalidSpec naming ``field`` when it cannot be resolved."""
    try:
        return rows.select(F.expr(sql).alias("value")).schema["value"].dataType
    except ParseException as error:
        raise InvalidSpec(field, sql, f"a Spark SQL expression ({first_line(error)})") from error
    except AnalysisException as error:
        columns = ", ".join(name for name in rows.columns if not name.startswith("_"))
        raise InvalidSpec(field, sql, f"an expression over {columns} ({first_line(error)})") from error


def require_type(rows: DataFrame, field: str, sql: str, allowed: tuple[str, ...], example: str) -> DataType:
    """As ``checked_type``, and the type's short name must be one of ``allowed``."""
    found = checked_type(rows, field, sql)
    if found.typeName() not in allowed:
        raise InvalidSpec(field, sql, f"{' or '.join(allowed)}, not {found.simpleString()}; {example}")
    return found


def first_line(error: PySparkException) -> str:
    """What Spark says, without the query plan behind it."""
    return str(error).strip().splitlines()[0]
