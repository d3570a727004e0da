"""The Python side of transformWithState: a limit for its requests, and a worker kept silent.

A limit for requests to the state of ``transformWithState``: a request that is not answered fails.

The server is a thread of the JVM. A full disk ends it with an Error, which Spark does not report in local mode: the
task, and with it the driver, would wait for ever.

**Private**: the socket of PySpark's client of that server.
**Public**: none: a request waits as long as PySpark has it.
**Lost**: such a batch hangs until the supervisor's patience with a batch without progress ends the driver.

Silence of the Python worker that initializes a processor when a query starts.

**Private**: the name of PySpark's module that this worker runs.
**Public**: none.
**Lost**: what the worker prints is on the stderr of a command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.spark.internals.java_errors import door

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


DOOR: Final = "state socket"


def answer_within(handle: StatefulProcessorHandle, seconds: float) -> None:
    """Make a request through ``handle`` fail after so many seconds of silence. Raises PrivateDoorBroken."""
    with door(DOOR):
        handle._statefulProcessorApiClient._client_socket.settimeout(seconds)  # noqa: SLF001  no public way


_INIT_WORKER: Final = "pyspark.sql.streaming.transform_with_state_driver_worker"


def hush_init_worker() -> None:
    """Discard what PySpark's worker prints that only initializes a processor: it would be on a command's stderr.

    In another process this does nothing. The worker's errors do not go this way.
    """
    program = getattr(sys.modules["__main__"], "__spec__", None)
    if program is not None and program.name == _INIT_WORKER:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  until the process ends
