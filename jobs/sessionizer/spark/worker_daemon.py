"""Forks Python workers that have everything imported: each would otherwise import it for itself, a second or more."""

from __future__ import annotations

import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import sessionizer.spark.pack
import sessionizer.spark.processor
import sessionizer.spark.unpack  # noqa: F401

if __name__ == "__main__":
    manager()
