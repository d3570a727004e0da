"""Silence of the Python worker that initializes a processor when a query starts.

**Private**: the name of PySpark's module that this worker runs.
**Public**: none.
**Lost**: what the worker prints is on the stderr of a command.
"""

import os
import sys
from pathlib import Path
from typing import Final

_INIT_WORKER: Final = "pyspark.sql.streaming.transform_with_state_driver_worker"


def hush_init_worker() -> None:
    """Discard what PySpark's worker prints that only initializes a processor: it would be on a command's stderr.

    In another process this does nothing. The worker's errors do not go this way.
    """
    program = getattr(sys.modules["__main__"], "__spec__", None)
    if program is not None and program.name == _INIT_WORKER:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  until the process ends
