"""The JVM that this Python starts: what it prints, its end and its exit code.

Its end writes the archive of its classes (docs/develop/tuning.md). Its exit code says that it had no memory left.

**Private**: PySpark's gateway, which has the process.
**Public**: none. ``SparkSession.stop`` leaves the JVM alive.
**Lost**: no archive is made, so that drivers start a few seconds later. A driver without a log of its own whose JVM had
no memory left says only that the JVM has died. Each start prints two lines that mean nothing to users.
"""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from sessionizer.errors import PrivateDoorBroken
from sessionizer.launch.driver_environment import plain
from sessionizer.spark.internals.java_errors import door

if TYPE_CHECKING:
    from pyspark import SparkConf

DOOR: Final = "own JVM"
UNTOLD: Final = (b"WARNING: Using incubator modules: ", b"Starting Streaming TransformWithStateInPandas Python worker.")
"""Beginnings of lines that every JVM of Spark prints."""


def start_context(conf: SparkConf) -> None:
    """Start the JVM and Spark's context, if there are none. Raises PySparkRuntimeError, PrivateDoorBroken."""
    from pyspark import SparkContext  # noqa: PLC0415  the version check of a session must come first
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    with door(DOOR):
        is_there = _gateway() is not None
    if is_there or "PYSPARK_GATEWAY_PORT" in os.environ:  # under spark-submit the JVM is our parent
        return
    reader, writer = os.pipe()
    relay = threading.Thread(target=pass_on, args=(reader,), name="stderr of the JVM", daemon=True)
    relay.start()
    try:
        gateway = launch_gateway(conf, {"stderr": writer})  # type: ignore[no-untyped-call]
    except BaseException:
        os.close(writer)
        relay.join(1.0)  # its last lines say why the JVM ended
        raise
    os.close(writer)
    SparkContext(conf=conf, gateway=gateway)


def pass_on(reader: int) -> None:
    """Write each line of the pipe ``reader`` to this process's stderr, except those that are not told."""
    is_untold = False
    with open(reader, "rb") as lines:
        for line in lines:
            is_untold = line.startswith(UNTOLD) or (is_untold and not line.strip())
            if not is_untold:
                with suppress(OSError):  # its reader may be gone, and the JVM must not wait for it
                    os.write(2, line)


def end_jvm(within_s: float) -> None:
    """End the JVM by closing every connection to it. Raises PrivateDoorBroken, and subprocess.TimeoutExpired."""
    with door(DOOR):
        gateway = _gateway()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(within_s)


def exit_code_of_jvm(within_s: float) -> int | None:
    """Return the JVM's exit code, None if it does not end or is not ours. Never raises: it is called after failures."""
    if plain():
        return None
    with suppress(PrivateDoorBroken, subprocess.TimeoutExpired), door(DOOR):
        # none under spark-submit: there the JVM is our parent
        process = getattr(_gateway(), "proc", None)
        return None if process is None else int(process.wait(within_s))
    return None


def _gateway() -> Any:  # noqa: ANN401  py4j's
    from pyspark import SparkContext  # noqa: PLC0415  also asked where there is no Spark yet

    return SparkContext._gateway  # noqa: SLF001  there is no public way
