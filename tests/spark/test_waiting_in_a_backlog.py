"""A backlog through Spark: every second batch merges, and what waits at its end comes out without new data."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bad_clicks import line
from in_process import catch_up
from landed import table_rows
from stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FIVE_MINUTES = 300
"""In clicks, which are a second apart: far more than the gap, the delay and the step of emission together."""


def test_what_waits_in_a_backlog_comes_out_with_the_next_batch(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=1) | {"key_groups": 1})
    for number in range(6):
        file = stage.feed / f"{number}.json"
        file.write_bytes(line(number * FIVE_MINUTES, f"user-{number}"))
        os.utime(file, (number, number))  # Spark reads the oldest first

    catch_up(spark, stage)

    batch_of = {row["key"]: row["batch_id"] for row in table_rows(stage.table("sessions"))}
    # the sixth batch has the last data, the seventh has none; nobody can tell yet that the sixth user is gone
    assert batch_of == {"user-0": 2, "user-1": 4, "user-2": 4, "user-3": 6, "user-4": 6}
