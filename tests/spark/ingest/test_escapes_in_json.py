"""An escape in JSON that stands for half a character is refused, whatever is around it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sessionizer.spark.ingest.file_source.lines import FAULT, parse_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECES = [
    "\\",
    "\\\\",
    "u",
    '"',
    "ud83d",
    "a",
    "é",
    "\U0001f600",
    "\ud83d",
    "\ud83e",
    "\ude00",
    "\udfff",
    "\ud800",
    "\n",
]
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), min_size=200, max_size=200)


def has_half_a_character(line: str) -> bool:
    """Tell what Python's reader of JSON finds."""
    return any("\ud800" <= letter <= "\udfff" for letter in json.loads(line)["key"])


@settings(
    max_examples=3,
    derandomize=True,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(texts=TEXTS)
def test_those_lines_are_refused_in_which_python_finds_half_a_character(spark: SparkSession, texts: list[str]) -> None:
    lines = [json.dumps({"key": text}) for text in texts]
    lines += [line.replace("\\ud", "\\uD") for line in lines]
    rows = parse_lines(spark.createDataFrame([(line,) for line in lines], "value string"), "json", "key string", {}, 99)
    wanted = {line: "invalid_utf8" if has_half_a_character(line) else None for line in lines}
    assert {row["_raw"]: row[FAULT] for row in rows.collect()} == wanted


def test_a_long_line_of_escapes_ends_no_task(spark: SparkSession) -> None:
    line = json.dumps({"key": "\U0001f600" * 40_000})
    rows = parse_lines(spark.createDataFrame([(line,)], "value string"), "json", "key string", {}, 1_000_000)
    assert [row[FAULT] for row in rows.collect()] == [None]
