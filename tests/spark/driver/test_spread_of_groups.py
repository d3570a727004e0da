"""Spark itself puts as many key groups into one partition as into another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from sessionizer.core.wire.schema import group_labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS = 16


@pytest.mark.parametrize("partitions", [2, 8])
def test_every_partition_gets_as_many_groups(spark: SparkSession, partitions: int) -> None:
    labels = spark.createDataFrame([(label,) for label in group_labels(GROUPS).tolist()], "key_group int")
    placed = labels.repartition(partitions, "key_group").groupBy(F.spark_partition_id()).count().collect()
    assert [row["count"] for row in placed] == [GROUPS // partitions] * partitions
