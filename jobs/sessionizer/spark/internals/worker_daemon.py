"""Spark's daemon of Python workers with its imports frozen.

After every task the daemon has the worker collect garbage, which looks at every object. The imported objects take 50
ms, six times a batch on two cores. The collector skips frozen objects (``gc.freeze``).

**Private**: ``pyspark.worker`` and ``pyspark.daemon``, which a module of ours stands in for. The name of the worker
that initializes a processor at the start of a query.
**Public**: Spark's own daemon (``launch/local_settings.py`` leaves ``spark.python.daemon.module`` alone). A worker then
freezes its imports when a function of ours has run in it for the first time, as it does on a cluster.
**Lost**: each worker imports everything for itself, a second or more at the start. That worker's prints are shown.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Final

from sessionizer.spark.internals.java_errors import door

DOOR: Final = "worker daemon"
_INIT_WORKER: Final = "pyspark.sql.streaming.transform_with_state_driver_worker"
_HAVE_RUN: Final[set[str]] = set()
"""Functions of ours that have run in this process."""


def freeze_imports(function: str) -> None:
    """Have the collector skip the objects that this process holds: once for each ``function``, when it has run.

    A function imports some of its modules while it runs. A frozen object is still freed when no reference is left.
    """
    if function not in _HAVE_RUN:
        _HAVE_RUN.add(function)
        gc.freeze()


def hush_init_worker() -> None:
    """Discard what PySpark's worker prints that only initializes a processor: it would be on a command's stderr.

    In another process this does nothing. The worker's errors do not go this way.
    """
    program = getattr(sys.modules["__main__"], "__spec__", None)
    if program is not None and program.name == _INIT_WORKER:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  until the process ends


def fork_workers() -> None:
    """Fork a worker whenever Spark asks for one, from this process with all that it has imported. Ends with Spark."""
    with door(DOOR):
        import pyspark.sql.streaming.proto.StateMessage_pb2  # noqa: PLC0415

        # the state's client imports it, and pandas with it, to send its first value
        import pyspark.testing.utils  # noqa: PLC0415
        import pyspark.worker  # noqa: F401, PLC0415
        from pyspark.daemon import manager  # noqa: PLC0415
    gc.freeze()
    manager()
