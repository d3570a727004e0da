"""Number of records that the tasks of a stage have taken so far, running tasks included.

**Private**: the status store behind Spark's pages, through the Java context.
**Public**: Spark's monitoring API, which its UI serves.
**Lost**: if the UI is off, or answers a proxy only, only finished tasks count. A task that takes longer than a driver's
patience with a batch then passes for a hanging one. Then give it more (docs/operating.md). On one machine the driver
also looks at the processor time of tasks, so nothing is lost.
"""

import json
from typing import Any, Final
from urllib.request import urlopen

from pyspark.sql import SparkSession

from sessionizer.launch.driver_environment import plain
from sessionizer.spark.internals.java_errors import JavaError, door

DOOR: Final = "task counts"
_COUNTS: Final = ("inputRecords", "shuffleReadRecords", "shuffleWriteRecords", "outputRecords")


def records_of_stage(spark: SparkSession, stage_id: int) -> tuple[int, int, int, int] | None:
    """Return records read, read and written in a shuffle, put out. None if unknown. Raises PrivateDoorBroken."""
    if plain():
        return _ask_ui(spark, stage_id)
    try:
        with door(DOOR):
            context: Any = spark.sparkContext._jsc  # noqa: SLF001  no Python API; what the page of a stage shows
            known = context.sc().statusStore().lastStageAttempt(stage_id)
            read, shuffle_read, shuffle_written, out = (int(getattr(known, name)()) for name in _COUNTS)
            return read, shuffle_read, shuffle_written, out
    except JavaError:
        return None


def _ask_ui(spark: SparkSession, stage_id: int) -> tuple[int, int, int, int] | None:
    context = spark.sparkContext
    if context.uiWebUrl is None:
        return None
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages/{stage_id}?details=false"
    try:
        with urlopen(address, timeout=2.0) as answer:  # noqa: S310  Spark's own address
            newest = max(json.load(answer), key=lambda attempt: attempt["attemptId"])
        read, shuffle_read, shuffle_written, out = (int(newest[name]) for name in _COUNTS)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return read, shuffle_read, shuffle_written, out
