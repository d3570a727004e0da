"""Rows that were written after a batch leave a table in one commit, and what was there before stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable

from sessionizer.spark.state.restores.taking_back import later_rows_of, take_back
from sessionizer.state.restores.later_rows import LaterRows, RowsOfTable

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = [
    ("before", 3, "2026-11-20"),
    ("back_to", 6, "2026-11-21"),
    ("back_to", 7, "2026-11-21"),
    ("back_to", 8, "2026-11-22"),
    ("back_to", 9, "2026-11-22"),
    ("after", 0, "2026-11-23"),
]
LATER = LaterRows("back_to", 7, ("after",))


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    location = str(tmp_path / "sessions")
    rows = spark.createDataFrame(ROWS, "lineage string, batch_id bigint, date string").selectExpr(
        "lineage", "batch_id", "cast(date as date) as date"
    )
    rows.coalesce(1).write.format("delta").save(location)
    return location


def left_in(spark: SparkSession, table: str) -> list[tuple[str, int]]:
    return sorted((row.lineage, row.batch_id) for row in spark.read.format("delta").load(table).collect())


def test_they_are_counted_by_day_before_anything_is_done(spark: SparkSession, table: str, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "late_events")
    assert later_rows_of(spark, {"sessions": table, "late_events": nowhere}, LATER) == [
        RowsOfTable("sessions", table, {"2026-11-22": 2, "2026-11-23": 1}),
        RowsOfTable("late_events", nowhere, {}),
    ]
    assert len(left_in(spark, table)) == len(ROWS)


def test_they_leave_in_one_commit_that_says_why(spark: SparkSession, table: str) -> None:
    take_back(spark, "sessions", table, LATER, "restore 0815")
    assert left_in(spark, table) == [("back_to", 6), ("back_to", 7), ("before", 3)]
    newest = DeltaTable.forPath(spark, table).history(1).select("version", "operation", "userMetadata").first()
    assert newest == (1, "DELETE", "restore 0815")


def test_a_second_time_nothing_is_written(spark: SparkSession, table: str, tmp_path: Path) -> None:
    take_back(spark, "sessions", table, LATER, "first")
    files = set((tmp_path / "sessions").rglob("*"))
    take_back(spark, "sessions", table, LATER, "second")
    take_back(spark, "quarantine", str(tmp_path / "nowhere"), LATER, "first")
    assert {file for file in (tmp_path / "sessions").rglob("*") if file.is_file()} <= files
    assert left_in(spark, table) == [("back_to", 6), ("back_to", 7), ("before", 3)]


def test_what_is_written_afterwards_has_no_such_note(spark: SparkSession, table: str) -> None:
    take_back(spark, "sessions", table, LATER, "restore 0815")
    spark.read.format("delta").load(table).limit(1).write.format("delta").mode("append").save(table)
    newest = DeltaTable.forPath(spark, table).history(1).select("userMetadata").first()
    assert newest is not None
    assert newest.userMetadata is None
