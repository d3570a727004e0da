"""Every type that a payload can keep, on every way an event can take: session, late, repeated, in conflict, refused."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from support.expected.landed import table_rows
from support.faults.bad_clicks import START_MS
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LAST_US = 253_402_300_799_999_999
"""The end of the year 9999."""
FIRST_US = -62_135_596_800_000_000
"""The begin of the year 1."""
LAST_DAY, FIRST_DAY = 2_932_896, -719_162
VALUES = {
    "far": f"timestamp_micros({LAST_US})",
    "before": f"timestamp_micros({FIRST_US})",
    "local_at": f"cast(timestamp_micros({LAST_US}) as timestamp_ntz)",
    "last_instant": f"timestamp_micros({LAST_US})",
    "first_instant": f"timestamp_micros({FIRST_US})",
    "day": f"date_from_unix_date({LAST_DAY})",
    "day_before": f"date_from_unix_date({FIRST_DAY})",
    "last_day": f"date_from_unix_date({LAST_DAY})",
    "first_day": f"date_from_unix_date({FIRST_DAY})",
    "nan": "double('NaN')",
    "zero": "-0.0D",
    "infinite": "float('-Infinity')",
    "price": "cast('12345678901234567890.123456789' as decimal(38, 9))",
    "raw": "unhex('ff00')",
    "small": "cast(-128 as tinyint)",
    "flag": "true",
    "word": "cast('word' as varchar(10))",
    "tags": "array('a', null)",
    "instants": f"array(timestamp_micros({LAST_US}))",
    "place": f"named_struct('n', 1, 'at', timestamp_micros({FIRST_US}))",
    "marks": "map('a', double('NaN'), 'b', cast(null as double))",
    "by_day": f"map(date_from_unix_date({LAST_DAY}), timestamp_micros({LAST_US}))",
}
SQL_OF_COLUMN = ", ".join(f"{sql} as {name}" for name, sql in VALUES.items())


def spec() -> dict[str, Any]:
    return {
        "source": {"format": "delta", "path": "feed"},
        "mapping": {
            "key": "user_id",
            "event_time": "timestamp_millis(ts)",
            "event_id": "event_id",
            "payload": {name: name for name in VALUES},
        },
        "measures": {"longest": "max(last_day)", "furthest": "max(far)", "places": "max(place)"},
        "rules": {"watermark_delay": "10 seconds", "gap_timeout": "30 seconds", "emit_every": "5 seconds"},
        "key_groups": 2,
    }


def send(spark: SparkSession, stage: Stage, *rows: tuple[str | None, str, int, str]) -> None:
    """Rows of user, event id, second, and an expression in place of ``tags``."""
    selects = [
        f"select {'null' if user is None else repr(user)} as user_id, '{event_id}' as event_id, "
        f"{START_MS + second * 1000}L as ts, {SQL_OF_COLUMN.replace(VALUES['tags'], tags)}"
        for user, event_id, second, tags in rows
    ]
    frame = spark.sql(" union all ".join(selects))
    frame.write.format("delta").mode("append").save(str(stage.feed))


def test_a_value_of_any_type_goes_every_way(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, spec())
    other = "array('other')"
    plain = VALUES["tags"]
    send(spark, stage, ("ann", "1", 0, plain), ("ann", "1", 0, plain), ("ann", "1", 0, other), (None, "2", 0, plain))
    catch_up(spark, stage)
    send(spark, stage, ("ann", "1", 0, other), ("ann", "3", 600, plain))
    catch_up(spark, stage)
    send(spark, stage, ("bob", "late", 1, plain))
    drain(spark, stage)

    quarantined = tables(spark, stage, "quarantine").collect()
    refused = [(row.reason, json.loads(row.raw)) for row in quarantined]
    assert sorted(reason for reason, _ in refused) == ["conflicting_duplicate"] * 2 + ["null_key"]
    raw = {name.removeprefix("payload_"): value for name, value in refused[0][1].items()}
    assert raw["day"] == "9999-12-31"
    kept = tables(spark, stage, "sessions").selectExpr("inline(events)")
    assert all(same_values(kept, row_count=2))
    assert all(same_values(tables(spark, stage, "late_events"), row_count=1))


FAR = {
    "day": ("date_from_unix_date(2932897)", "date'9999-12-31'"),
    "at": ("timestamp_micros(-62135596800000001)", "timestamp'2026-01-01 00:00:00'"),
    "local_at": ("timestamp_ntz'+12000-01-01 00:00:00'", "timestamp_ntz'2026-01-01 00:00:00'"),
    "days": ("array(null, date_from_unix_date(-719163))", "array(date'0001-01-01', null)"),
    "place": ("named_struct('at', timestamp_micros(9223372036854775807))", "named_struct('at', timestamp'2026-01-01')"),
    "by_day": ("map(date_from_unix_date(2147483647), 1)", "map(date'2026-01-01', 1)"),
    "nothing": ("cast(null as array<date>)", "cast(null as array<date>)"),
}
"""Columns of the payload: an expression that no reader has a value for, and one that every reader has."""


@pytest.mark.long
def test_a_day_that_readers_have_no_value_for_reaches_no_table(spark: SparkSession, tmp_path: Path) -> None:
    far_spec = spec() | {"measures": {"next": "date_add(max(day), 1)", "newest": "max(day)"}}
    far_spec["mapping"]["payload"] = {name: name for name in FAR}
    stage = Stage.set_up(tmp_path, far_spec)
    selects = []
    for number, far in enumerate([None, *FAR]):
        columns = ", ".join(f"{values[0] if name == far else values[1]} as {name}" for name, values in FAR.items())
        selects.append(f"select 'ann' as user_id, '{number}' as event_id, {START_MS + number}L as ts, {columns}")
    spark.sql(" union all ".join(selects)).write.format("delta").save(str(stage.feed))

    drain(spark, stage)

    refused = [row["reason"] for row in table_rows(stage.table("quarantine"))]
    assert refused == ["year_out_of_range"] * (len(FAR) - 1)
    (session,) = table_rows(stage.table("sessions"))
    assert (session["event_count"], session["newest"], session["next"]) == (2, date(9999, 12, 31), None)


def tables(spark: SparkSession, stage: Stage, name: str) -> Any:
    return spark.read.format("delta").load(str(stage.table(name)))


def same_values(found: Any, row_count: int) -> list[bool]:
    """Whether each value came through: compared in Spark, as Python has no word for some."""
    assert found.count() == row_count
    checks = [
        f"bool_and(cast({name} as string) <=> cast({sql} as string)) as {name}"
        for name, sql in VALUES.items()
        if name not in ("raw", "tags")
    ]
    (row,) = found.selectExpr(*checks, "bool_and(hex(raw) = 'FF00') as raw").collect()
    return list(row)
