"""The quick check of a string's encoding says what Spark's own says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sessionizer.spark.internals.catalyst import is_utf8

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = [
    b"",
    b"plain",
    b"/cart?x=1" * 100,
    "größer ☃ 🚲".encode(),
    b"\x7f\x00",
    b"\x80",
    b"plain until \xc3",
    b"\xc3\x28 at the front",
    b"\xed\xa0\x80",
    b"\xf5\x80\x80\x80",
    None,
]


def test_it_agrees_with_spark(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(text,) for text in TEXTS], "bytes binary")
    text = rows.select(F.col("bytes"), F.expr("cast(bytes as string)").alias("text"))
    judged = text.select("bytes", F.is_valid_utf8("text").alias("wanted"), is_utf8(spark, F.col("text")).alias("found"))
    assert [row.found for row in judged.collect()] == [row.wanted for row in judged.collect()]
    assert judged.where("found").count() == 5
    assert judged.where("found is null").count() == 1
