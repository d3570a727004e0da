"""Settings that are put back however the work in between ends."""

from contextlib import nullcontext

import pytest
from pyspark.sql import SparkSession

from sessionizer.spark.session import temporary_settings

SET = "spark.sql.shuffle.partitions"
NEVER_SET = "spark.databricks.delta.commitInfo.userMetadata"


@pytest.mark.parametrize("error", [None, ZeroDivisionError()])
def test_what_was_set_is_put_back_and_what_was_not_is_unset(spark: SparkSession, error: Exception | None) -> None:
    before = spark.conf.get(SET)
    ends = pytest.raises(ZeroDivisionError) if error else nullcontext()
    with ends, temporary_settings(spark, {SET: "7", NEVER_SET: "a note"}):
        assert (spark.conf.get(SET), spark.conf.get(NEVER_SET)) == ("7", "a note")
        if error:
            raise error
    assert (spark.conf.get(SET), spark.conf.get(NEVER_SET, None)) == (before, None)


def test_a_setting_that_spark_refuses_leaves_those_before_it_as_they_were(spark: SparkSession) -> None:
    before = spark.conf.get(SET)
    with pytest.raises(Exception, match=r"ansi\.enabled"):  # noqa: SIM117  the block must not be entered
        with temporary_settings(spark, {SET: "7", "spark.sql.ansi.enabled": "perhaps"}):
            pytest.fail("the block was entered")
    assert spark.conf.get(SET) == before
