"""No value of a source becomes a moment by the clock: every value by every way in, in two zones whose days differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from sessionizer.spark.ingest.file_source.lines import FAULT, parse_lines
from sessionizer.spark.ingest.kafka_values.records import parse_records
from sessionizer.spark.ingest.source import read_source
from sessionizer.spark.internals.trying import try_expression
from sessionizer.spark.session import temporary_settings
from sessionizer.stream_spec.document.source import FilesSource, KafkaSource
from support.expected.landed import table_rows
from support.processes.in_process import drain
from support.streams.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ZONES = ("Pacific/Kiritimati", "Etc/GMT+12")
"""It is never the same day in both."""
BY_THE_CLOCK = (
    "10:00", "1:2", "T2", "T10:00", "T10:00:00Z", " 10:00", "\t10:00:00.5", "10:00 Europe/Berlin", "10:00:00+02:00",
    "now", "today", "Yesterday", "tomorrow UTC", "now CET", "epoch", "current_date", "",
)  # fmt: skip
BY_ITSELF = ("2024-05-01", "2024-05-01T10:00:00Z", "2024-05-01 10:00:00", "2024-05-01 10:00:00 Europe/Berlin")
VALUES = (*BY_THE_CLOCK, *BY_ITSELF)
EXPRESSIONS = (
    "try_to_timestamp(v)", "to_timestamp(v)", "to_timestamp_ltz(v)", "to_timestamp_ntz(v)", "cast(v as timestamp)",
    "v::timestamp_ntz", "timestamp(v)", "date(v)", "date_trunc('second', v)", "v + interval 0 days",
    "timestampadd(DAY, 0, v)", "from_utc_timestamp(v, 'UTC')", "transform(array(v), x -> timestamp(x))[0]",
    "if(v < timestamp'2100-01-01', v::timestamp, null)", "struct(v::timestamp as at).at", "date_format(v, 'yyyy')",
    "to_timestamp(concat(v, ''))",
)  # fmt: skip


def texts(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(number, value) for number, value in enumerate(VALUES)], "n int, v string")


def by_expression(sql: str) -> Callable[[SparkSession, Path], DataFrame]:
    def read(spark: SparkSession, _: Path) -> DataFrame:
        rows = texts(spark)
        return rows.select("n", try_expression(rows, sql).alias("at"), F.lit(None).cast("string").alias(FAULT))

    return read


def by_json(columns: str, at: str, **options: str) -> Callable[[SparkSession, Path], DataFrame]:
    def read(spark: SparkSession, _: Path) -> DataFrame:
        lines = [(json.dumps({"n": n, "v": v, "vs": [{"v": v}], "m": {"T1": v}}),) for n, v in enumerate(VALUES)]
        rows = spark.createDataFrame(lines, "value string")
        return parse_lines(rows, "json", f"n int, {columns}", options, 9_999).selectExpr("n", f"{at} as at", FAULT)

    return read


def by_escapes(spark: SparkSession, _: Path) -> DataFrame:
    escaped = ["".join(rf"\u{ord(character):04x}" for character in value) for value in VALUES]
    lines = [(f'{{"n":{n},"v":"{value}"}}',) for n, value in enumerate(escaped)]
    return parse_lines(spark.createDataFrame(lines, "value string"), "json", "n int, v timestamp", {}, 9_999).select(
        "n", F.col("v").alias("at"), FAULT
    )


def by_kafka(spark: SparkSession, _: Path) -> DataFrame:
    kind = "key binary, value string, topic string, partition int, offset bigint, timestamp timestamp, headers int"
    records = [(None, json.dumps({"n": n, "v": v}), "t", 0, n, None, None) for n, v in enumerate(VALUES)]
    source = KafkaSource(
        format="kafka", bootstrap_servers="h:1", topic="t", encoding="json", columns="n int, v timestamp"
    )
    return parse_records(spark.createDataFrame(records, kind), source, 9_999).select("n", F.col("v").alias("at"), FAULT)


def by_csv(line: str, **options: str) -> Callable[[SparkSession, Path], DataFrame]:
    def read(spark: SparkSession, home: Path) -> DataFrame:
        (home / "feed").mkdir()
        lines = [line.format(n=n, v=v) for n, v in enumerate(VALUES)]
        (home / "feed" / "1.csv").write_text("\n".join(lines))
        source = FilesSource(
            format="files", path="feed", encoding="csv", columns="n int, `v t` timestamp", options=options
        )
        rows = read_source(spark, source, home, 9_999, stream=False)
        return rows.select("n", F.col("`v t`").alias("at"), FAULT)

    return read


def by_folder(spark: SparkSession, home: Path) -> DataFrame:
    for n, v in enumerate(VALUES):
        name = v.replace(":", "%3A").replace("/", "%2F").replace("\t", "%09")
        folder = home / "feed" / f"at={name or '__HIVE_DEFAULT_PARTITION__'}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": pa.array([n], pa.int32())}), folder / f"{n}.parquet")
    source = FilesSource(format="files", path="feed", encoding="parquet", columns="n int, at timestamp")
    return read_source(spark, source, home, 9_999, stream=False).select("n", "at", FAULT)


WAYS: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    **{sql: by_expression(sql) for sql in EXPRESSIONS},
    "json": by_json("v timestamp", "v"),
    "json in an array": by_json("vs array<struct<v: timestamp>>", "vs[0].v"),
    "json in a map": by_json("m map<string, timestamp>", "m['T1']"),
    "json with a format": by_json(
        "v timestamp", "v", timestampFormat="yyyy-MM-dd HH", enableDateTimeParsingFallback="true"
    ),
    "json without a zone": by_json("v timestamp_ntz", "v"),
    "json as a day": by_json("v date", "v"),
    "escapes of json": by_escapes,
    "kafka": by_kafka,
    "csv": by_csv("{n},{v}"),
    "csv in quotes": by_csv("{n},'{v}'", quote="'"),
    "csv of another separator": by_csv("{n}||{v}", sep="||"),
    "csv of many lines": by_csv('{n},"{v}"', multiLine="true"),
    "folder": by_folder,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_value_is_the_same_on_every_day(spark: SparkSession, tmp_path: Path, way: str) -> None:
    found: dict[str, list[tuple[str | None, int | None]]] = {}
    for zone in ZONES:
        with temporary_settings(spark, {"spark.sql.session.timeZone": zone}):
            home = tmp_path / zone.replace("/", "-")
            home.mkdir()
            rows = WAYS[way](spark, home).where(F.col(FAULT).isNull()).where("at is not null")
            for row in rows.selectExpr("n", "cast(at as string)", "unix_micros(cast(at as timestamp)) us").collect():
                found.setdefault(VALUES[row["n"]], []).append((row["at"], row["us"]))
    for value, (one, *others) in found.items():
        assert len(others) == 1, f"in one zone only: {value!r}"
        assert one[0] == others[0][0] or one[1] == others[0][1], f"{value!r} is {one} and {others[0]}"
    assert found.keys() & set(BY_THE_CLOCK) == set()
    assert found.keys() >= {"2024-05-01"}


@pytest.mark.parametrize(
    ("kind", "event_time", "reason"),
    [("string", "try_to_timestamp(ts)", "null_event_time"), ("timestamp", "ts", "wrong_type")],
)
def test_a_time_of_day_makes_no_other_event_late(
    spark: SparkSession, tmp_path: Path, kind: str, event_time: str, reason: str
) -> None:
    source: dict[str, Any] = {"format": "files", "path": "feed", "encoding": "json"}
    source |= {"columns": f"user string, ts {kind}, id string", "options": {"maxFilesPerTrigger": 1}}
    mapping = {"key": "user", "event_time": event_time, "event_id": "id"}
    rules = {"watermark_delay": "10 minutes", "gap_timeout": "30 minutes"}
    stage = Stage.set_up(tmp_path, {"source": source, "mapping": mapping, "rules": rules})
    events = [("u1", "2024-05-01T10:00:00Z"), ("bad", "01:00"), ("u1", "2024-05-01T10:05:00Z")]
    events += [("u2", "2024-05-01T10:06:00Z"), ("u1", "2024-05-01T10:10:00Z"), ("u2", "2024-05-01T10:12:00Z")]
    for number, (user, ts) in enumerate(events):
        (stage.feed / f"{number}.json").write_text(json.dumps({"user": user, "ts": ts, "id": str(number)}))

    drain(spark, stage)

    assert {row["key"]: row["event_count"] for row in table_rows(stage.table("sessions"))} == {"u1": 3, "u2": 2}
    (refused,) = table_rows(stage.table("quarantine"))
    assert (refused["reason"], json.loads(refused["raw"])["ts"]) == (reason, "01:00")
    assert table_rows(stage.table("late_events")) == []
