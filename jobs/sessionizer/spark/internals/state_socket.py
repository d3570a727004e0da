"""A limit for requests to the state of ``transformWithState``: a request that is not answered fails.

The server is a thread of the JVM. A full disk ends it with an Error, which Spark does not report in local mode: the
task, and with it the driver, would wait for ever.

**Private**: the socket of PySpark's client of that server.
**Public**: none: a request waits as long as PySpark has it.
**Lost**: such a batch hangs until the supervisor's patience with a batch without progress ends the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.spark.internals.java_errors import door

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

DOOR: Final = "state socket"


def answer_within(handle: StatefulProcessorHandle, seconds: float) -> None:
    """Make a request through ``handle`` fail after so many seconds of silence. Raises PrivateDoorBroken."""
    with door(DOOR):
        handle._statefulProcessorApiClient._client_socket.settimeout(seconds)  # noqa: SLF001  no public way
