"""Daemon of Python workers that have everything imported. Else each would import for itself, a second or more."""

from __future__ import annotations

import sessionizer.spark.query.pack
import sessionizer.spark.query.processor
import sessionizer.spark.sinks.unpack  # noqa: F401
from sessionizer.spark.internals.worker_daemon import fork_workers

if __name__ == "__main__":
    fork_workers()
