"""The errors of py4j under our names, and the door: if a private part is missing, its error names the way on.

The JVM that this Python has started: its end and its exit code.

Its end writes the archive of its classes (docs/develop/tuning.md). Its exit code says that it had no memory left.

**Private**: PySpark's gateway, which has the process.
**Public**: none. ``SparkSession.stop`` leaves the JVM alive.
**Lost**: no archive is made, so that drivers start a few seconds later. A driver without a log of its own whose JVM had
no memory left says only that the JVM has died.
"""

from __future__ import annotations

import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError as JavaUnreachable
from py4j.protocol import Py4JJavaError as JavaError
from py4j.protocol import Py4JNetworkError

from sessionizer.errors import PrivateDoorBroken
from sessionizer.launch.driver_environment import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    if isinstance(error, JavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString()).splitlines()[0]
    return str(error).strip().splitlines()[0]


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
        absent = [line for line in str(error).splitlines() if any(sign in line for sign in (*_ABSENT, *_MOVED))]
        if absent:
            raise PrivateDoorBroken(name, absent[0].strip()) from error
        raise


DOOR: Final = "own JVM"


def end_jvm(within_s: float) -> None:
    """End the JVM by closing every connection to it. Raises PrivateDoorBroken, and subprocess.TimeoutExpired."""
    with door(DOOR):
        gateway = _gateway()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(within_s)


def exit_code_of_jvm(within_s: float) -> int | None:
    """Return the JVM's exit code, None if it does not end or is not ours.

    Never raises, because it is called after failures.
    """
    if plain():
        return None
    with suppress(PrivateDoorBroken, subprocess.TimeoutExpired), door(DOOR):
        gateway = _gateway()
        # none under spark-submit: there the JVM is our parent
        process = None if gateway is None else gateway.proc
        return None if process is None else int(process.wait(within_s))
    return None


def _gateway() -> Any:  # noqa: ANN401  py4j's
    from pyspark import SparkContext  # noqa: PLC0415  also asked where there is no Spark yet

    return SparkContext._gateway  # noqa: SLF001  there is no public way
