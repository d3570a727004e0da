"""Spark's daemon of Python workers with its imports frozen: the public way is Spark's own daemon (``pyspark.daemon``).

After every task the daemon has the worker collect garbage, which looks at all objects there are: 50 ms for what the
imports left, six times a batch on two cores. Frozen, those objects are no longer looked at (``gc.freeze``).
"""

from __future__ import annotations

import gc

import pyarrow.compute  # noqa: F401
import pyspark.sql.streaming.proto.StateMessage_pb2

# the state's client imports it, and pandas with it, to send its first value
import pyspark.testing.utils
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager


def fork_workers() -> None:
    """Fork a worker whenever Spark asks for one, from this process with all that it has imported. Ends with Spark."""
    gc.freeze()
    manager()
