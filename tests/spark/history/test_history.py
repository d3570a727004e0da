"""``sessionizer history`` on real files: the stream's mapping and guard before the sessions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.errors import InvalidSpec
from sessionizer.spark.history.read import EventHistory, read_event_history
from sessionizer.stream_spec.document.stream import StreamSpec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SPEC: dict[str, Any] = {
    "name": "visits",
    "source": {
        "format": "kafka",
        "bootstrap_servers": "nowhere:9092",
        "topic": "visits",
        "encoding": "json",
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


def test_files_of_a_stream_that_reads_a_broker(spark: SparkSession, folder: Path) -> None:
    found = read(spark, folder)
    assert found.figures.events == 4
    assert found.figures.refused == {"null_key": 1, "non_positive_event_time": 1, "malformed": 1}
    sessions = {row.session_id: row for row in found.sessions(found.take(None)).collect()}
    assert sorted((row.key, row.event_count, row.close_reason, row.names) for row in sessions.values()) == [
        ("a", 1, "gap", 1),
        ("a", 2, "closing_event", 2),
        ("b", 1, "gap", 1),
    ]
    taken = found.take(90_500)
    closed = found.sessions(taken)
    assert {row.key for row in closed.collect()} == {"a"}
    assert "events" in closed.columns
    left = [row.asDict(recursive=True) for row in found.open_events(taken).collect()]
    assert [(row.pop("event_time").timestamp(), row) for row in left] == [
        (
            90,
            {
                "key": "b",
                "client": None,
                "event_id": "4",
                "closes": False,
                "timeout_ms": 1000,
                "payload": {"name": "4"},
            },
        )
    ]


def test_a_delta_table_of_the_columns(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    columns = "u string, ts bigint, id string, out boolean"
    spark.read.schema(columns).json(str(folder)).write.format("delta").save(str(table))
    found = read(spark, table, sink={"keep_events": False})
    assert found.figures.events == 4
    assert "events" not in found.sessions(found.take(None)).columns


def test_without_arrival_there_is_no_processing_time(spark: SparkSession, folder: Path) -> None:
    rules = {"time_mode": "processing_time"}
    with pytest.raises(InvalidSpec, match=r"rules\.time_mode"):
        read(spark, folder, rules=rules)


def test_without_a_clock_events_are_in_the_order_of_their_own_time(spark: SparkSession, folder: Path) -> None:
    history = read(spark, folder, rules={"time_mode": "none"})
    found = history.sessions(history.take(None)).collect()
    assert sorted((row.key, row.event_count, row.close_reason, row.duration_ms) for row in found) == [
        ("a", 1, "gap", 0),
        ("a", 2, "closing_event", 500),
        ("b", 2, "gap", 90_005),
    ]
