"""The plan of a changed type refuses what a run refuses: edits of each type, asked of one table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

from sessionizer.errors import InvalidSpec
from sessionizer.spark.sinks.table_shapes import TableShape
from sessionizer.spark.sinks.tables import ensure_table, require_tables_fit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

EDITS = (
    ("tinyint", "smallint"), ("smallint", "int"), ("int", "bigint"), ("int", "double"), ("int", "decimal(20,0)"),
    ("bigint", "int"), ("bigint", "double"), ("bigint", "string"), ("float", "double"), ("double", "float"),
    ("decimal(10,2)", "decimal(12,2)"), ("decimal(10,2)", "decimal(12,4)"), ("decimal(10,2)", "decimal(8,2)"),
    ("string", "int"), ("boolean", "int"), ("date", "timestamp"), ("date", "timestamp_ntz"), ("timestamp", "string"),
    ("array<int>", "array<bigint>"), ("array<bigint>", "array<int>"), ("struct<a:int>", "struct<a:bigint>"),
    ("struct<a:int>", "struct<a:int,b:int>"), ("struct<a:int,b:int>", "struct<a:int>"),
    ("map<string,int>", "map<string,bigint>"), ("binary", "string"), ("int", "int"),
)  # fmt: skip
"""The type that the table has, and the one that the spec gives now."""


def shape(*columns: str) -> TableShape:
    fields = StructType.fromDDL(", ".join(("date date", *columns)))
    assert isinstance(fields, StructType)
    return TableShape("visits", "Visits.", fields)


@pytest.mark.parametrize("widening", ["false", pytest.param("true", marks=pytest.mark.long)])
def test_the_plan_refuses_what_a_run_refuses_and_nothing_else(
    spark: SparkSession, tmp_path: Path, widening: str
) -> None:
    location = str(tmp_path / "visits")
    ensure_table(spark, shape(*(f"c{number} {before}" for number, (before, _) in enumerate(EDITS))), location)
    spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('delta.enableTypeWidening' = '{widening}')")

    def commits() -> int:
        return len(list((tmp_path / "visits" / "_delta_log").glob("*.json")))

    for number, (before, now) in enumerate(EDITS):
        edited = shape(f"c{number} {now}")
        planned = _verdict(partial(require_tables_fit, spark, [edited], {"visits": location}))
        before_run = commits()
        done = _verdict(partial(ensure_table, spark, edited, location))
        assert planned == done, (before, now, widening)
        if done is not None:
            assert commits() == before_run, "a refusal writes nothing"
        else:
            spark.createDataFrame([], edited.columns).write.format("delta").mode("append").save(location)
    kept = spark.read.format("delta").load(location).schema
    assert kept["c2"].dataType.simpleString() == ("int" if widening == "false" else "bigint")


def _verdict(attempt: Callable[[], object]) -> str | None:
    """Return the field that is refused, if one is."""
    try:
        attempt()
    except InvalidSpec as error:
        return error.field
    return None
