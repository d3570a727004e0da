"""Spark's monitoring API says of a stage what its status store does: seen in a Spark with its UI on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
from pyspark.sql import SparkSession
from sessionizer.spark.internals.task_counts import records_of_stage

builder = SparkSession.builder.master("local[1]").config("spark.ui.port", "0").config("spark.ui.enabled", "true")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
os.environ["SESSIONIZER_PLAIN_SPARK"] = "1"
while records_of_stage(spark, 0) is None:  # the pages take longer than a driver's patience to answer the first time
    if spark.sparkContext.statusTracker().getStageInfo(0) is None:
        spark.range(1).collect()
first = 1 + max(stage for stage in range(9) if spark.sparkContext.statusTracker().getStageInfo(stage))
spark.range(1000).repartition(2).write.format("noop").mode("overwrite").save()
found = {}
for plain in "01":
    os.environ["SESSIONIZER_PLAIN_SPARK"] = plain
    found[plain] = [records_of_stage(spark, stage) for stage in range(first, first + 3)]
assert found["0"] == found["1"], found
assert sum(1000 in known for known in found["1"] if known) >= 2, found
print(records_of_stage(spark, 1_000_000))
spark.stop()
"""


@pytest.mark.long
def test_both_ways_count_alike() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "None"
