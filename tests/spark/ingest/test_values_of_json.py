"""The page of values says what Spark makes of each value of JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sessionizer.spark.ingest.file_source.lines import FAULT, parse_lines
from support.places import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = REPOSITORY / "docs" / "values.md"
ROW = re.compile(r"^\| `(.+)` \| `(.+)` \| (?:`(.+)`|refused) \|$", re.MULTILINE)
LEAST_ROWS = 25


def come_as(spark: SparkSession, values: list[tuple[str, str]]) -> list[tuple[str | None, str | None]]:
    """Read each value of JSON as a column of its type, all in one query."""
    parsed = [
        parse_lines(spark.createDataFrame([(f'{{"v":{value}}}',)], "value string"), "json", f"v {kind}", {}, 9_999)
        .select(F.lit(number).alias("number"), F.expr("cast(v as string) v"), FAULT)
        for number, (value, kind) in enumerate(values)
    ]  # fmt: skip
    rows = parsed[0]
    for each in parsed[1:]:
        rows = rows.unionAll(each)
    return [(row["v"], row[FAULT]) for row in sorted(rows.collect(), key=lambda row: int(row["number"]))]


def test_each_row_of_the_page(spark: SparkSession) -> None:
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(found) > LEAST_ROWS
    wanted = [(text, None) if text else (None, "wrong_type") for _, _, text in found]
    came = come_as(spark, [(value, kind) for value, kind, _ in found])
    assert {row[:2]: each for row, each in zip(found, came, strict=True)} == {
        row[:2]: each for row, each in zip(found, wanted, strict=True)
    }


def test_of_two_fields_of_one_name_the_last_counts(spark: SparkSession) -> None:
    lines = ['{"v":1,"v":2}', '{"v":3,"v":null}', '{"V":1}']
    rows = parse_lines(spark.createDataFrame([(line,) for line in lines], "value string"), "json", "v int", {}, 99)
    assert {row["_raw"]: row["v"] for row in rows.collect()} == dict(zip(lines, [2, None, None], strict=True))
