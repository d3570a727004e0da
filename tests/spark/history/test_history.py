"""``sessionizer history`` on real files: the stream's mapping and guard before the sessions."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql import Row, SparkSession

from sessionizer.control.history.files import KEPT_MS, Mark, MarkKind, add_mark, hour_name, write_hour
from sessionizer.control.history.sample import Sample
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import HOUR
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.history.read import EventHistory, read_event_history
from sessionizer.spark.history.report import (
    SETTLED_AFTER_MS,
    DailyReport,
    append_history,
    complete_hours,
    mark_row,
    minute_row,
)
from sessionizer.spark.sinks.compaction import compact_table, plan_tables
from sessionizer.state.compaction.plan import OwnedTable, Retention
from sessionizer.stream_spec.document.stream import StreamSpec
from support.places import known
from support.streams.stage import topic_source

SPEC: dict[str, Any] = {
    "name": "visits",
    "source": {
        **topic_source("nowhere:9092", "visits"),
        "columns": "u string, ts bigint, id string, out boolean",
    },
    "mapping": {
        "key": "u",
        "event_time": "timestamp_millis(ts)",
        "event_id": "id",
        "closes": "out",
        "payload": {"name": "id"},
    },
    "measures": {"names": "count(distinct name)"},
    "rules": {"gap_timeout": "1 second"},
}
LINES = [
    {"u": "a", "ts": 1_000, "id": "1"},
    {"u": "a", "ts": 1_500, "id": "2", "out": True},
    {"u": "a", "ts": 1_600, "id": "3"},
    {"u": "b", "ts": 90_000, "id": "4"},
    {"u": None, "ts": 1_000, "id": "5"},
    {"u": "b", "ts": -5, "id": "6"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    history = tmp_path / "history"
    history.mkdir()
    lines = [json.dumps(line) for line in LINES]
    (history / "events.json").write_text("\n".join([*lines, '{"u": "tru']))
    return history


def read(spark: SparkSession, folder: Path, **changes: Any) -> EventHistory:
    return read_event_history(spark, StreamSpec.model_validate({**SPEC, **changes}), folder, folder.parent)


def refreshed(report: DailyReport) -> tuple[tuple[date, ...], int, bool]:
    """Days, rows, and whether all was made anew."""
    done = known(report.refresh())
    return done.dates, done.rows, done.rebuilt


def counts(report: DailyReport) -> dict[tuple[date, str | None], int]:
    return {key: row.sessions for key, row in rows_of(report).items()}


def test_files_of_a_stream_that_reads_a_broker(spark: SparkSession, folder: Path) -> None:
    found = read(spark, folder)
    assert found.figures.events == 4
    assert found.figures.refused == {"null_key": 1, "non_positive_event_time": 1, "malformed": 1}
    sessions = {row.session_id: row for row in found.sessions(found.take(None)).collect()}
    assert sorted((row.key, row.event_count, row.close_reason, row.names) for row in sessions.values()) == [
        ("a", 1, "gap", 1), ("a", 2, "closing_event", 2), ("b", 1, "gap", 1),
    ]  # fmt: skip
    taken = found.take(90_500)
    closed = found.sessions(taken)
    assert {row.key for row in closed.collect()} == {"a"}
    assert "events" in closed.columns
    (left,) = [row.asDict(recursive=True) for row in found.open_events(taken).collect()]
    assert left.pop("event_time").timestamp() == 90
    event = {"key": "b", "client": None, "event_id": "4", "closes": False, "timeout_ms": 1000}
    assert left == {**event, "payload": {"name": "4"}}


def test_a_delta_table_of_the_columns(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    columns = "u string, ts bigint, id string, out boolean"
    spark.read.schema(columns).json(str(folder)).write.format("delta").save(str(table))
    found = read(spark, table, sink={"keep_events": False})
    assert found.figures.events == 4
    assert "events" not in found.sessions(found.take(None)).columns


def test_without_a_clock_events_are_in_the_order_of_their_own_time(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"rules\.time_mode"):
        read(spark, folder, rules={"time_mode": "processing_time"})
    history = read(spark, folder, rules={"time_mode": "none"})
    found = history.sessions(history.take(None)).collect()
    assert sorted((row.key, row.event_count, row.close_reason, row.duration_ms) for row in found) == [
        ("a", 1, "gap", 0), ("a", 2, "closing_event", 500), ("b", 2, "gap", 90_005),
    ]  # fmt: skip


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
    last = known(DeltaTable.forPath(report.spark, report.daily).history(1).first())
    return int(last.version)


def test_days_are_followed_rewritten_and_rebuilt(report: DailyReport) -> None:
    assert report.refresh() is None, "no sessions yet"
    land(report, ("acme", MONDAY, 100, "gap"), ("acme", MONDAY, 300, "closing_event"), (None, TUESDAY, 7, "gap"))
    assert refreshed(report) == ((MONDAY, TUESDAY), 2, True)
    monday = rows_of(report)[MONDAY, "acme"]
    assert (monday.sessions, monday.events, monday.average_duration_ms, monday.median_duration_ms) == (2, 4, 200, 200)
    assert (monday.ended_by_gap, monday.ended_by_closing_event, monday.ended_by_max_events) == (1, 1, 0)
    assert monday.total_revenue == 3.0
    assert "total_last_page" not in monday.asDict()
    version = version_of(report)
    assert refreshed(report) == ((), 0, False)
    assert version_of(report) == version

    land(report, ("acme", MONDAY, 500, "gap"), ("acme", WEDNESDAY, 1, "max_events"))
    assert refreshed(report) == ((MONDAY, WEDNESDAY), 2, False)
    assert counts(report) == {(MONDAY, "acme"): 3, (TUESDAY, None): 1, (WEDNESDAY, "acme"): 1}

    DeltaTable.forPath(report.spark, report.sessions).delete("client is null or duration_ms = 500")
    thursday = WEDNESDAY + timedelta(days=1)
    land(report, ("acme", thursday, 1, "gap"))
    assert refreshed(report)[-1]
    assert counts(report) == {(MONDAY, "acme"): 2, (WEDNESDAY, "acme"): 1, (thursday, "acme"): 1}

    DeltaTable.forPath(report.spark, report.sessions).delete()
    assert refreshed(report) == ((), 0, True)
    assert rows_of(report) == {}


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
    assert refreshed(report)[-1]
    assert counts(report) == {(MONDAY, "acme"): 2, (TUESDAY, "acme"): 2}


@pytest.mark.long
def test_days_whose_sessions_have_left_stay_as_they_were_counted(report: DailyReport) -> None:
    land(report, ("acme", MONDAY, 100, "gap"), ("acme", TUESDAY, 7, "gap"))
    assert report.refresh() is not None
    DeltaTable.forPath(report.spark, report.sessions).delete(f"date < date'{TUESDAY}'")
    land(report, ("acme", MONDAY, 1, "gap"), ("acme", TUESDAY, 8, "gap"))
    later = replace(report, kept_from=TUESDAY)
    for rebuilt in (True, False):
        days, _, is_rebuilt = refreshed(later)
        assert (is_rebuilt, MONDAY in days) == (rebuilt, False)
        assert counts(report) == {(MONDAY, "acme"): 1, (TUESDAY, "acme"): 2}


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
    assert {row.date for row in rows} == {datetime.fromtimestamp(start / 1000, UTC).date()}
