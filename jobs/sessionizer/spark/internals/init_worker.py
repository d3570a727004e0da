"""Silence of the Python worker that initializes a processor when a query starts.

**Private**: the name of PySpark's module that this worker runs.
**Public**: none.
**Lost**: what the worker prints is on the stderr of a command.
"""

import os
import sys
from pathlib import Path


def hush_init_worker() -> None:
    """Discard what that worker prints, which are not its errors. In another process this does nothing."""
    program = getattr(sys.modules["__main__"], "__spec__", None)
    if program is not None and program.name == "pyspark.sql.streaming.transform_with_state_driver_worker":
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  until the process ends
