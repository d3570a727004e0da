"""Spark's own expressions: those without a public name, and what an expression of a spec is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from sessionizer.spark.internals.java_class import java_class, scala_object

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CATALYST: Final = "org.apache.spark.sql.catalyst"
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


def parsed(spark: SparkSession, sql: str) -> Any:  # noqa: ANN401  a Java object
    """The expression as Spark parses it: no name in it is looked up. Raises ParseException."""
    return spark._jsparkSession.sessionState().sqlParser().parseExpression(sql)  # noqa: SLF001  there is no public way


def analyzed(rows: DataFrame) -> Any:  # noqa: ANN401  a Java object
    """The plan of ``rows``, every name in it looked up."""
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001  there is no public way


def momentary_pattern(spark: SparkSession) -> Any:  # noqa: ANN401  a Java object
    """What Spark marks expressions with that it replaces by the time, the user or the catalog when it plans."""
    return scala_object(spark, f"{_CATALYST}.trees.TreePattern").CURRENT_LIKE()


def require_streamable(rows: DataFrame) -> None:
    """Ask Spark what it would ask when the query starts. Raises AnalysisException, for a window function say."""
    append = java_class(rows.sparkSession, "org.apache.spark.sql.streaming.OutputMode").Append()
    checker = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
    java_class(rows.sparkSession, checker).checkForStreaming(analyzed(rows), append)


def own_functions(spark: SparkSession) -> frozenset[str]:
    """The names of all functions that Spark itself has."""
    names = scala_object(spark, f"{_CATALYST}.analysis.FunctionRegistry").builtin().listFunction().mkString("|")
    return frozenset(name.rpartition(".")[2] for name in names.split("|"))


def children(expression: Any) -> list[Any]:  # noqa: ANN401  Java objects
    """The parts of an expression, or of another of Spark's trees."""
    parts = expression.children()
    return [parts.apply(number) for number in range(parts.size())]


def kind_of(expression: Any) -> str:  # noqa: ANN401  a Java object
    """The name of Spark's class for it."""
    return str(expression.getClass().getSimpleName())


def with_children(spark: SparkSession, expression: Any, parts: list[Any]) -> Any:  # noqa: ANN401  Java objects
    """The same with other parts."""
    return expression.withNewChildren(java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(parts))
