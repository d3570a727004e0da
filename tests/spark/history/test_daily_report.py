"""``sessions_daily`` follows ``sessions``: only the days that changed, and to the same rows however often it runs."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable

from sessionizer.spark.history.report import DailyReport
from sessionizer.spark.sinks.compaction import compact_table, plan_tables
from sessionizer.state.compaction.plan import OwnedTable
from sessionizer.state.compaction.retention import Retention

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

COLUMNS = (
    "client string, date date, started_at timestamp, duration_ms long, event_count int, close_reason string, "
    "revenue double, last_page string"
)
MONDAY, TUESDAY, WEDNESDAY = (date(2026, 3, day) for day in (2, 3, 4))


@pytest.fixture
def report(spark: SparkSession, tmp_path: Path) -> DailyReport:
    return DailyReport(
        spark, str(tmp_path / "sessions"), str(tmp_path / "daily"), ("revenue", "last_page"), tmp_path / "reports"
    )


def land(report: DailyReport, *sessions: tuple[str | None, date, int, str]) -> None:
    rows = [
        (client, day, datetime(day.year, day.month, day.day, tzinfo=UTC), duration, 2, reason, 1.5, "x")
        for client, day, duration, reason in sessions
    ]
    report.spark.createDataFrame(rows, COLUMNS).write.format("delta").mode("append").save(report.sessions)


def rows_of(report: DailyReport) -> dict[tuple[date, str | None], Row]:
    return {(row.date, row.client): row for row in report.spark.read.format("delta").load(report.daily).collect()}


def version_of(report: DailyReport) -> int:
    last = DeltaTable.forPath(report.spark, report.daily).history(1).first()
    assert last is not None
    return int(last.version)


def test_no_sessions_yet(report: DailyReport) -> None:
    assert report.refresh() is None


def test_days_are_followed_rewritten_and_rebuilt(report: DailyReport) -> None:
    land(report, ("acme", MONDAY, 100, "gap"), ("acme", MONDAY, 300, "closing_event"), (None, TUESDAY, 7, "gap"))
    done = report.refresh()
    assert done is not None
    assert (done.dates, done.rows, done.rebuilt) == ((MONDAY, TUESDAY), 2, True)
    monday = rows_of(report)[MONDAY, "acme"]
    assert (monday.sessions, monday.events, monday.average_duration_ms, monday.median_duration_ms) == (2, 4, 200, 200)
    assert (monday.ended_by_gap, monday.ended_by_closing_event, monday.ended_by_max_events) == (1, 1, 0)
    assert monday.total_revenue == 3.0
    assert "total_last_page" not in monday.asDict()
    version = version_of(report)

    done = report.refresh()
    assert done is not None
    assert (done.dates, done.rows, done.rebuilt) == ((), 0, False)
    assert version_of(report) == version

    land(report, ("acme", MONDAY, 500, "gap"), ("acme", WEDNESDAY, 1, "max_events"))
    done = report.refresh()
    assert done is not None
    assert (done.dates, done.rows, done.rebuilt) == ((MONDAY, WEDNESDAY), 2, False)
    assert {key: row.sessions for key, row in rows_of(report).items()} == {
        (MONDAY, "acme"): 3,
        (TUESDAY, None): 1,
        (WEDNESDAY, "acme"): 1,
    }

    DeltaTable.forPath(report.spark, report.sessions).delete("client is null or duration_ms = 500")
    land(report, ("acme", WEDNESDAY + timedelta(days=1), 1, "gap"))
    done = report.refresh()
    assert done is not None
    assert done.rebuilt
    assert {key: row.sessions for key, row in rows_of(report).items()} == {
        (MONDAY, "acme"): 2,
        (WEDNESDAY, "acme"): 1,
        (WEDNESDAY + timedelta(days=1), "acme"): 1,
    }


@pytest.mark.long
def test_files_that_a_compaction_deleted_unread_are_no_loss(report: DailyReport) -> None:
    spark = report.spark
    land(report, ("acme", MONDAY, 100, "gap"))
    assert report.refresh() is not None
    land(report, ("acme", MONDAY, 300, "gap"), ("acme", TUESDAY, 7, "gap"))
    land(report, ("acme", TUESDAY, 8, "gap"))
    at_once = Retention(0, "the test", is_short=True)
    (plan,) = plan_tables(spark, [OwnedTable("sessions", report.sessions, "clicks@0123456789abcdef")], at_once)
    assert compact_table(spark, plan, at_once).deleted >= 3
    done = report.refresh()
    assert done is not None
    assert done.rebuilt
    assert {key: row.sessions for key, row in rows_of(report).items()} == {(MONDAY, "acme"): 2, (TUESDAY, "acme"): 2}
