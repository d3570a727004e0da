"""Catalyst's expressions as columns, for the doors beside this file. Each door names its public way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sessionizer.spark.internals.java_class import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

CATALYST: Final = "org.apache.spark.sql.catalyst"
_EXPRESSION_UTILS: Final = "org.apache.spark.sql.classic.ExpressionUtils"


def catalyst(spark: SparkSession, name: str) -> Any:  # noqa: ANN401  a Java class
    """Return the class of one of Spark's own expressions."""
    return java_class(spark, f"{CATALYST}.expressions.{name}")


def column_of(spark: SparkSession, expression: Any) -> Column:  # noqa: ANN401  a Java object
    """Return a Spark expression without a public name as a column."""
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415  a plain Spark may not have it

    return ClassicColumn(java_class(spark, _EXPRESSION_UTILS).column(expression))


def expression_of(spark: SparkSession, column: Column) -> Any:  # noqa: ANN401  a Java object
    """Return the expression of a column."""
    return java_class(spark, _EXPRESSION_UTILS).expression(column._jc)  # noqa: SLF001  there is no public way
