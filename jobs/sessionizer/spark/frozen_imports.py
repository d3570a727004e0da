"""Imports of a Python worker, frozen so that its garbage collector skips them.

After each task PySpark has the worker collect garbage, which looks at every object. The imported objects take 50 ms,
six times a batch on two cores (docs/develop/tuning.md).
"""

import gc
from typing import Final

_HAVE_RUN: Final[set[str]] = set()
"""Functions of ours that have run in this process."""


def freeze_imports(function: str) -> None:
    """Have the collector skip what this process holds: once for each ``function``, which may import while it runs."""
    if function not in _HAVE_RUN:
        _HAVE_RUN.add(function)
        gc.freeze()
