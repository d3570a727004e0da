"""Classes of the JVM by their full names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from py4j.java_gateway import JavaClass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
