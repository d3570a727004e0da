"""Every type that a payload can keep, on every way an event can take: session, late, repeated, in conflict, refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.faults.bad_clicks import START_MS
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

YEAR_20000_US = 568_971_820_800_000_000
YEAR_MINUS_1_US = -62_198_755_200_000_001
VALUES = {
    "far": f"timestamp_micros({YEAR_20000_US})",
    "before": f"timestamp_micros({YEAR_MINUS_1_US})",
    "local_at": f"cast(timestamp_micros({YEAR_20000_US}) as timestamp_ntz)",
    "last_instant": f"timestamp_micros({2**63 - 1})",
    "first_instant": f"timestamp_micros({-(2**63)})",
    "day": "date_from_unix_date(6585321)",
    "day_before": "date_from_unix_date(-719893)",
    "last_day": f"date_from_unix_date({2**31 - 1})",
    "first_day": f"date_from_unix_date({-(2**31)})",
    "nan": "double('NaN')",
    "zero": "-0.0D",
    "infinite": "float('-Infinity')",
    "price": "cast('12345678901234567890.123456789' as decimal(38, 9))",
    "raw": "unhex('ff00')",
    "small": "cast(-128 as tinyint)",
    "flag": "true",
    "word": "cast('word' as varchar(10))",
    "tags": "array('a', null)",
    "instants": f"array(timestamp_micros({YEAR_20000_US}))",
    "place": f"named_struct('n', 1, 'at', timestamp_micros({YEAR_MINUS_1_US}))",
    "marks": "map('a', double('NaN'), 'b', cast(null as double))",
    "by_day": f"map(date_from_unix_date(6585321), timestamp_micros({YEAR_20000_US}))",
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
    assert raw["day"].lstrip("+") == "19999-12-31"
    kept = tables(spark, stage, "sessions").selectExpr("inline(events)")
    assert all(same_values(kept, row_count=2))
    assert all(same_values(tables(spark, stage, "late_events"), row_count=1))


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
