"""Classes of the JVM by their full names, and Catalyst's expressions as columns, for the doors beside this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from py4j.java_gateway import JavaClass

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

CATALYST: Final = "org.apache.spark.sql.catalyst"
_EXPRESSION_UTILS: Final = "org.apache.spark.sql.classic.ExpressionUtils"


def java_class(spark: SparkSession, name: str) -> Any:  # noqa: ANN401  a Java class
    """Return the class, which is not looked up before it is used.

    On the way to ``_jvm.org.apache.spark.X`` py4j asks whether ``org``, ``org.apache`` and so on are classes. Each time
    the JVM searches the whole class path.
    """
    gateway = cast("Any", spark.sparkContext._jvm)._gateway_client  # noqa: SLF001  no Python API
    return JavaClass(name, gateway)


def scala_object(spark: SparkSession, name: str) -> Any:  # noqa: ANN401  a Scala object
    """Return the object (singleton) of a full name."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


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
