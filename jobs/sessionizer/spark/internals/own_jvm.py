"""The JVM that this Python has started: its end and its exit code.

Its end writes the archive of its classes (docs/develop/tuning.md). Its exit code says that it had no memory left.

**Private**: PySpark's gateway, which has the process.
**Public**: none. ``SparkSession.stop`` leaves the JVM alive.
**Lost**: no archive is made, so that drivers start a few seconds later. A driver without a log of its own whose JVM had
no memory left says only that the JVM has died.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import Any, Final

from sessionizer.errors import PrivateDoorBroken
from sessionizer.launch.driver_environment import plain
from sessionizer.spark.internals.java_errors import door

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
