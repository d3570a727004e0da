"""Forks Python workers that have everything imported: each would otherwise import it for itself, a second or more.

After every task Spark's daemon has the worker collect garbage, which looks at all objects there are: 50 ms for what the
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

import sessionizer.spark.pack
import sessionizer.spark.processor
import sessionizer.spark.unpack  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    manager()
