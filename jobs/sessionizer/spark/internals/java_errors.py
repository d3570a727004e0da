"""The errors of py4j under our names, and their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError as JavaUnreachable
from py4j.protocol import Py4JJavaError as JavaError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

__all__ = ["JavaError", "JavaUnreachable", "first_line"]


def first_line(error: PySparkException | JavaError) -> str:
    """Return the message of Spark (or of Java below it), without the query plan and the stack behind it."""
    if isinstance(error, JavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString()).splitlines()[0]
    return str(error).strip().splitlines()[0]
