"""The errors of py4j under our names, and the door: if a private part is missing, its error names the way on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError as JavaUnreachable
from py4j.protocol import Py4JJavaError as JavaError
from py4j.protocol import Py4JNetworkError

from sessionizer.errors import PrivateDoorBroken

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
__all__ = ["JavaError", "JavaUnreachable", "door", "java_message"]

_ABSENT: Final = ("does not exist", "cannot be found", "is not callable")
"""Texts of py4j for a class, a method or a constructor with these parameters that the JVM does not have."""
_MOVED: Final = (
    "NoSuchMethodError", "NoSuchFieldError", "NoClassDefFoundError", "ClassNotFoundException", "NoSuchMethodException",
    "IncompatibleClassChangeError", "AbstractMethodError", "IllegalAccessError", "ClassCastException",
)  # fmt: skip
"""Errors of the JVM for classes that differ from those the code was compiled for."""


def java_message(error: PySparkException | JavaError) -> str:
    """Return the message of Spark (or of Java below it), without the query plan and the stack behind it."""
    if not isinstance(error, JavaError):
        return str(error).strip().splitlines()[0]
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString()).splitlines()[0]


@contextmanager
def door(name: str) -> Iterator[None]:
    """Raise PrivateDoorBroken, naming the door, if a private part in the block is missing. Other errors pass."""
    try:
        yield
    except (ImportError, AttributeError, TypeError) as error:
        raise PrivateDoorBroken(name, f"{type(error).__name__}: {error}") from error
    except JavaError as error:
        if (moved := str(error.java_exception.getClass().getSimpleName())) in _MOVED:
            raise PrivateDoorBroken(name, f"{moved}: {error.java_exception.getMessage()}") from error
        raise
    except Py4JNetworkError:
        raise
    except JavaUnreachable as error:
        for line in str(error).splitlines():
            if any(sign in line for sign in (*_ABSENT, *_MOVED)):
                raise PrivateDoorBroken(name, line.strip()) from error
        raise
