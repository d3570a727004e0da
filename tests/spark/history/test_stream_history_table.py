"""The table ``stream_history`` has each complete hour once, however often and in whatever hour the report runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.history.files import KEPT_MS, hour_name, write_hour
from sessionizer.control.history.mark import Mark, MarkKind, add_mark
from sessionizer.control.history.sample import Sample
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.home.clock import HOUR
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.history.report import (
    SETTLED_AFTER_MS,
    append_history,
    complete_hours,
    mark_row,
    minute_row,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FIRST_HOUR = 1_790_000_000_000 // HOUR


@pytest.mark.parametrize(
    ("newest", "now", "hours"),
    [
        (-1, 0, KEPT_MS // HOUR),
        (FIRST_HOUR - 3, 0, 2),
        (FIRST_HOUR - 3, -1, 1),
        (FIRST_HOUR - 1, 0, 0),
        (FIRST_HOUR + 9, 0, 0),
        (FIRST_HOUR - 3, HOUR - 1, 2),
    ],
    ids=["no table", "two hours", "an hour that may be written still", "nothing new", "a clock set back", "this hour"],
)
def test_the_hours_that_are_complete(newest: int, now: int, hours: int) -> None:
    begin, end = complete_hours(newest, FIRST_HOUR * HOUR + SETTLED_AFTER_MS + now)
    assert (end - begin) // HOUR == hours
    assert end == FIRST_HOUR * HOUR - (HOUR if now < 0 else 0)


def test_a_row_has_no_key_of_a_user() -> None:
    row = minute_row(Sample(at=FIRST_HOUR * HOUR, key="alice", straggler="key:alice", watermark_ms=NEVER_MS))
    assert "alice" not in map(str, row.values())
    assert (row["straggler"], row["watermark"]) == ("key", None)
    assert mark_row(Mark(kind=MarkKind.CRASH, at=FIRST_HOUR, what="memory", by="olga"))["approved_by"] == "olga"


def test_each_hour_is_added_once(spark: SparkSession, tmp_path: Path) -> None:
    home, table = StreamHome.of(tmp_path, "visits"), str(tmp_path / "stream_history")
    home.history.mkdir(parents=True)
    start = FIRST_HOUR * HOUR
    for hour in range(3):
        begin = start + hour * HOUR
        closed = {"gap": 3, "max_events": hour}
        write_hour(home, hour_name(begin), [Sample(at=begin, lineage="a", batch_id=hour, rows=7, closed=closed)])
    add_mark(home, Mark(at=start + 9, kind=MarkKind.SAVEPOINT, savepoint="s"))
    after_two = start + 2 * HOUR + SETTLED_AFTER_MS
    assert append_history(spark, home, table, after_two) == 3
    assert append_history(spark, home, table, after_two) == 0
    assert append_history(spark, home, table, after_two + HOUR) == 1
    rows = spark.read.format("delta").load(table).orderBy("at").collect()
    assert [(row.kind, row.batch_id, row.rows) for row in rows] == [
        ("minute", 0, 7), ("savepoint", None, None), ("minute", 1, 7), ("minute", 2, 7),
    ]  # fmt: skip
    assert [row.ended_by_max_events for row in rows] == [0, None, 1, 2]
    assert {row.date for row in rows} == {rows[0].at.date()}
