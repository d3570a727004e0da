"""The Spark settings of a driver on this machine, started by the command line, or by Airflow through spark-submit.

On a cluster we set none of them, because only its operator knows how many cores and how much memory there are.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sessionizer.launch.local_jvm import DEFAULT_JAVA_OPTIONS, SMALL_ARRAYS, jvm_options

if TYPE_CHECKING:
    from pathlib import Path


def is_local_master(master: str) -> bool:
    """Whether Spark runs on this machine alone: ``local[4]``, and ``local-cluster[2,1,1024]`` as well."""
    return master.startswith("local")


def launch_settings(jars: Path) -> dict[str, str]:
    """Return the settings that cannot change once the JVM runs, whose class path is ``jars``.

    A site's ``spark.driver.extraJavaOptions`` come after the JVM's options and win.
    """
    return {
        DEFAULT_JAVA_OPTIONS: jvm_options(jars),
        # small arrays take little of the heap
        **SMALL_ARRAYS,
    }


def session_settings() -> dict[str, str]:
    """Return the settings that a session may set for itself, unless others were submitted."""
    return {
        # a task per core and stage
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        # Delta's default of 50 costs seconds per commit on a laptop; each task of it generates its code anew
        "spark.databricks.delta.snapshotPartitions": "1",
    }
