"""Imports of a Python worker, frozen so that its garbage collector skips them.

After each task PySpark has the worker collect garbage, which looks at every object. The imported objects take 50 ms,
six times a batch on two cores (docs/develop/tuning.md).
"""

import gc
from typing import Final

_HAVE_RUN: Final[set[str]] = set()
"""Functions of ours that have run in this process."""


def freeze_imports(function: str) -> None:
    """Have the collector skip the objects that this process holds: once for each ``function``, when it has run.

    A function imports some of its modules while it runs. A frozen object is still freed when no reference is left.
    """
    if function not in _HAVE_RUN:
        _HAVE_RUN.add(function)
        gc.freeze()
