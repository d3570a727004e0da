"""Every type of Parquet by every type that a spec declares: the values are right, or the file is put aside."""

import json
import os
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sessionizer.errors import SourceFileUnfit
from sessionizer.spark.ingest.file_source.lines import FAULT, parse_lines
from sessionizer.spark.ingest.file_source.unfit_files import find_unfit_column
from sessionizer.spark.ingest.kafka_values.records import parse_records
from sessionizer.spark.ingest.source import read_source
from sessionizer.spark.internals.java_errors import JavaError
from sessionizer.spark.internals.trying import try_expression
from sessionizer.spark.session import temporary_settings
from sessionizer.stream_spec.document.source import FilesSource, KafkaSource
from support.expected.landed import table_rows
from support.faults.bad_clicks import START_MS
from support.processes.in_process import catch_up, drain
from support.streams.drawn_logs import drawn_cases
from support.streams.stage import Stage

DAY_US = 86_400_000_000
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, 127]),
    "int16": (pa.int16(), [-32_768, 32_767]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "uint8": (pa.uint8(), [1, 255]),
    "uint16": (pa.uint16(), [1, 65_535]),
    "uint32": (pa.uint32(), [1, 2**32 - 1]),
    "uint64": (pa.uint64(), [1, 2**64 - 1]),
    "float": (pa.float32(), [1.5, -2.5]),
    "double": (pa.float64(), [1.5, -2.5]),
    "decimal": (pa.decimal128(20, 0), [Decimal(10**19), Decimal(-1)]),
    "ms": (pa.timestamp("ms", "UTC"), [0, DAY_US // 1_000]),
    "us": (pa.timestamp("us", "UTC"), [0, DAY_US]),
    "ns": (pa.timestamp("ns", "UTC"), [0, DAY_US * 1_000]),
    "local ns": (pa.timestamp("ns"), [0, DAY_US * 1_000]),
    "category": (pa.dictionary(pa.int32(), pa.uint32()), [1, 2**32 - 1]),
    "time": (pa.time64("us"), [0, 5]),
    "duration": (pa.duration("us"), [0, 5]),
    "text": (pa.string(), ["a", "b"]),
    "bytes": (pa.binary(), [b"a", b"b"]),
    "flag": (pa.bool_(), [True, False]),
}
WHOLE = ("tinyint", "smallint", "int", "bigint")
"""Types of whole numbers that a spec may declare."""
UNREAD = ("float", "flag")
"""Types that none of the declared ones takes."""
OTHERS = ("double", "decimal(20,0)", "timestamp", "date", "string")
PLACES = {"v": "v", "s.v": "s struct<v: {}>", "vs[0]": "vs array<{}>", "m['k']": "m map<string, {}>"}


def write(folder: Path, kind: pa.DataType, values: list[Any], *, dictionary: bool) -> None:
    column = pa.array(values, kind)
    single = pa.ListArray.from_arrays(list(range(len(values) + 1)), column)
    by_key = pa.MapArray.from_arrays(list(range(len(values) + 1)), ["k"] * len(values), column)
    columns = {"v": column, "s": pa.StructArray.from_arrays([column], ["v"]), "vs": single, "m": by_key}
    folder.mkdir(parents=True)
    pq.write_table(
        pa.table({"n": list(range(len(values))), **columns}), folder / "1.parquet", use_dictionary=dictionary
    )


def read(spark: SparkSession, folder: Path, declared: str, place: str) -> list[Any] | None:
    """The values as an expression has them, None if the file is refused by name."""
    column = {"v": f"v {declared}"}.get(place, PLACES[place].format(declared))
    source = FilesSource(format="files", path=str(folder), encoding="parquet", columns=f"n bigint, {column}")
    shown = f"unix_micros(cast({place} as timestamp))" if declared.startswith("timestamp") else place
    try:
        rows = read_source(spark, source, folder, 9_999, stream=False)
        found = rows.select("n", try_expression(rows, shown).alias("shown")).collect()
    except SourceFileUnfit:
        return None
    except (PySparkException, JavaError) as error:
        if "FAILED_READ_FILE" not in str(error):
            raise
        return None
    return [row["shown"] for row in sorted(found, key=lambda row: int(row["n"]))]


@pytest.mark.parametrize("dictionary", [True, pytest.param(False, marks=pytest.mark.long)], ids=["dictionary", "plain"])
@pytest.mark.parametrize("kind", drawn_cases(KINDS, 6))
def test_a_value_is_right_or_its_file_is_refused(
    spark: SparkSession, tmp_path: Path, kind: str, dictionary: bool
) -> None:
    arrow, values = KINDS[kind]
    folder = tmp_path / "feed"
    write(folder, arrow, values, dictionary=dictionary)
    # milliseconds as a moment, and bytes as a text, are shown in another way
    right = (values, [value * 1_000 for value in values] if kind == "ms" else ["a", "b"], None)
    asked = [(declared, place) for declared in WHOLE for place in (PLACES if kind.startswith("uint") else ["v"])]
    asked += [(declared, "v") for declared in OTHERS]
    found = {each: read(spark, folder, *each) for each in asked}
    assert {each: values for each, values in found.items() if values not in right} == {}
    assert any(found.values()) or kind in UNREAD


@pytest.mark.parametrize(
    ("declared", "found", "problem"),
    [
        ("n int", "n bigint", "n has values of type bigint where source.columns has int. Declare it bigint"),
        ("s struct<a: array<int>>", "S struct<A: array<bigint>>", "s.a[] has values of type bigint where"),
        ("m map<string, smallint>", "m map<string, int>", "m[] has values of type int where"),
        ("n double", "n decimal(20,0)", "n has values of type decimal(20,0) where source.columns has double"),
        ("n bigint, t timestamp", "n int, t timestamp, more string", None),
        ("n int", "other bigint", None),
    ],
)
def test_a_column_that_does_not_hold_its_values_is_named(declared: str, found: str, problem: str | None) -> None:
    said = find_unfit_column(StructType.fromDDL(declared), StructType.fromDDL(found))
    assert said is problem is None or (problem is not None and str(said).startswith(problem))


def test_files_that_spark_would_read_wrongly_are_put_aside(spark: SparkSession, tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "source": {"format": "files", "path": "feed", "encoding": "parquet", "options": {"maxFilesPerTrigger": 1}},
        "mapping": {
            "key": "user",
            "event_time": "timestamp_millis(ts)",
            "event_id": "id",
            "payload": {"n": "n", "v": "s.v"},
        },
        "measures": {"items": "sum(n)"},
    }
    spec["source"]["columns"] = "user string, ts bigint, id string, n bigint, s struct<v: bigint>"
    stage = Stage.set_up(tmp_path, spec)

    def feed(name: str, rows: int, **kinds: pa.DataType) -> bytes:
        table = pa.table({
            "user": ["ann"] * rows,
            "ts": [1_714_557_600_000 + n for n in range(rows)],
            "id": [f"{name}{n}" for n in range(rows)],
            "n": pa.array([5] * rows, kinds.get("n", pa.int64())),
            "s": pa.array([{"v": n % 3} for n in range(rows)], pa.struct([("v", kinds.get("v", pa.int64()))])),
        })  # fmt: skip
        pq.write_table(table, stage.feed / f"{name}.parquet", compression="none")
        return (stage.feed / f"{name}.parquet").read_bytes()

    feed("a", 3, n=pa.uint32())
    feed("b", 3, n=pa.uint64())
    feed("c", 3, v=pa.uint64())
    # the run of 200 places in the dictionary of one value
    run = feed("d", 200)
    assert run.count(b"\x90\x03\x00") >= 1
    (stage.feed / "d.parquet").write_bytes(run.replace(b"\x90\x03\x00", b"\x90\x03\x07"))
    feed("e", 3)
    # Spark lists these two, though no other file with such a name
    (stage.feed / "_metadata").write_bytes(b"")
    (stage.feed / "_common_metadata").write_bytes((stage.feed / "e.parquet").read_bytes())

    drain(spark, stage)

    aside = {row["source_position"][-9:]: row["raw"] for row in table_rows(stage.table("quarantine"))}
    assert set(aside) == {"b.parquet", "c.parquet", "d.parquet"}
    assert all("decimal(20,0)" in aside[name] for name in ("b.parquet", "c.parquet"))
    assert [(row["event_count"], row["items"]) for row in table_rows(stage.table("sessions"))] == [(6, 30)]


LAST_US = 253_402_300_799_999_999
"""The end of the year 9999."""
FIRST_US = -62_135_596_800_000_000
"""The begin of the year 1."""
LAST_DAY, FIRST_DAY = 2_932_896, -719_162
VALUES = {
    "far": f"timestamp_micros({LAST_US})",
    "before": f"timestamp_micros({FIRST_US})",
    "local_at": f"cast(timestamp_micros({LAST_US}) as timestamp_ntz)",
    "day": f"date_from_unix_date({LAST_DAY})",
    "day_before": f"date_from_unix_date({FIRST_DAY})",
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


def spec(payload: Iterable[str] = VALUES, **measures: str) -> dict[str, Any]:
    mapping = {"key": "user_id", "event_time": "timestamp_millis(ts)", "event_id": "event_id"}
    return {
        "source": {"format": "delta", "path": "feed"},
        "mapping": {**mapping, "payload": {name: name for name in payload}},
        "measures": measures,
        "rules": {"watermark_delay": "10 seconds", "gap_timeout": "30 seconds", "emit_every": "5 seconds"},
        "key_groups": 2,
    }


def test_a_value_of_any_type_goes_every_way(spark: SparkSession, tmp_path: Path) -> None:
    measures = {"longest": "max(day)", "furthest": "max(far)", "places": "max(place)"}
    stage = Stage.set_up(tmp_path, spec(**measures))

    def send(*rows: tuple[str | None, str, int, str]) -> None:
        """Rows of user, event id, second, and an expression in place of ``tags``."""
        selects = [
            f"select {'null' if user is None else repr(user)} as user_id, '{event_id}' as event_id, "
            f"{START_MS + second * 1000}L as ts, {columns_with(tags=tags)}"
            for user, event_id, second, tags in rows
        ]
        spark.sql(" union all ".join(selects)).write.format("delta").mode("append").save(str(stage.feed))

    def table(name: str) -> DataFrame:
        return spark.read.format("delta").load(str(stage.table(name)))

    other, plain = "array('other')", VALUES["tags"]
    send(("ann", "1", 0, plain), ("ann", "1", 0, plain), ("ann", "1", 0, other), (None, "2", 0, plain))
    catch_up(spark, stage)
    send(("ann", "1", 0, other), ("ann", "3", 600, plain))
    catch_up(spark, stage)
    send(("bob", "late", 1, plain))
    drain(spark, stage)

    refused = [(row.reason, json.loads(row.raw)) for row in table("quarantine").collect()]
    assert sorted(reason for reason, _ in refused) == ["conflicting_duplicate"] * 2 + ["null_key"]
    raw = {name.removeprefix("payload_"): value for name, value in refused[0][1].items()}
    assert raw["day"] == "9999-12-31"
    # compared in Spark, as Python has no word for some
    checks = [
        f"bool_and(cast({name} as string) <=> cast({sql} as string)) as {name}"
        for name, sql in VALUES.items()
        if name not in ("raw", "tags")
    ]
    for found, count in ((table("sessions").selectExpr("inline(events)"), 2), (table("late_events"), 1)):
        assert found.count() == count
        (row,) = found.selectExpr(*checks, "bool_and(hex(raw) = 'FF00') as raw").collect()
        assert all(row)


def columns_with(**changed: str) -> str:
    return ", ".join(f"{sql} as {name}" for name, sql in {**VALUES, **changed}.items())


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
    stage = Stage.set_up(tmp_path, spec(FAR, next="date_add(max(day), 1)", newest="max(day)"))
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


ZONES = ("Pacific/Kiritimati", "Etc/GMT+12")
"""It is never the same day in both."""
BY_THE_CLOCK = (
    "10:00", "1:2", "T2", "T10:00", "T10:00:00Z", " 10:00", "\t10:00:00.5", "10:00 Europe/Berlin", "10:00:00+02:00",
    "now", "today", "Yesterday", "tomorrow UTC", "now CET", "epoch", "current_date", "",
)  # fmt: skip
BY_ITSELF = ("2024-05-01", "2024-05-01T10:00:00Z", "2024-05-01 10:00:00", "2024-05-01 10:00:00 Europe/Berlin")
CLOCK_VALUES = (*BY_THE_CLOCK, *BY_ITSELF)
EXPRESSIONS = (
    "try_to_timestamp(v)", "to_timestamp(v)", "to_timestamp_ltz(v)", "to_timestamp_ntz(v)", "cast(v as timestamp)",
    "v::timestamp_ntz", "timestamp(v)", "date(v)", "date_trunc('second', v)", "v + interval 0 days",
    "timestampadd(DAY, 0, v)", "from_utc_timestamp(v, 'UTC')", "transform(array(v), x -> timestamp(x))[0]",
    "if(v < timestamp'2100-01-01', v::timestamp, null)", "struct(v::timestamp as at).at", "date_format(v, 'yyyy')",
    "to_timestamp(concat(v, ''))",
)  # fmt: skip


def texts(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(number, value) for number, value in enumerate(CLOCK_VALUES)], "n int, v string")


def by_expression(sql: str) -> Callable[[SparkSession, Path], DataFrame]:
    def read(spark: SparkSession, _: Path) -> DataFrame:
        rows = texts(spark)
        return rows.select("n", try_expression(rows, sql).alias("at"), F.lit(None).cast("string").alias(FAULT))

    return read


def by_json(columns: str, at: str, **options: str) -> Callable[[SparkSession, Path], DataFrame]:
    def read(spark: SparkSession, _: Path) -> DataFrame:
        lines = [(json.dumps({"n": n, "v": v, "vs": [{"v": v}], "m": {"T1": v}}),) for n, v in enumerate(CLOCK_VALUES)]
        rows = spark.createDataFrame(lines, "value string")
        return parse_lines(rows, "json", f"n int, {columns}", options, 9_999).selectExpr("n", f"{at} as at", FAULT)

    return read


def by_escapes(spark: SparkSession, _: Path) -> DataFrame:
    escaped = ["".join(rf"\u{ord(character):04x}" for character in value) for value in CLOCK_VALUES]
    lines = [(f'{{"n":{n},"v":"{value}"}}',) for n, value in enumerate(escaped)]
    return parse_lines(spark.createDataFrame(lines, "value string"), "json", "n int, v timestamp", {}, 9_999).select(
        "n", F.col("v").alias("at"), FAULT
    )


def by_kafka(spark: SparkSession, _: Path) -> DataFrame:
    kind = "key binary, value string, topic string, partition int, offset bigint, timestamp timestamp, headers int"
    records = [(None, json.dumps({"n": n, "v": v}), "t", 0, n, None, None) for n, v in enumerate(CLOCK_VALUES)]
    source = KafkaSource(
        format="kafka", bootstrap_servers="h:1", topic="t", encoding="json", columns="n int, v timestamp"
    )
    return parse_records(spark.createDataFrame(records, kind), source, 9_999).select("n", F.col("v").alias("at"), FAULT)


def by_csv(line: str, **options: str) -> Callable[[SparkSession, Path], DataFrame]:
    def read(spark: SparkSession, home: Path) -> DataFrame:
        (home / "feed").mkdir()
        lines = [line.format(n=n, v=v) for n, v in enumerate(CLOCK_VALUES)]
        (home / "feed" / "1.csv").write_text("\n".join(lines))
        source = FilesSource(
            format="files", path="feed", encoding="csv", columns="n int, `v t` timestamp", options=options
        )
        rows = read_source(spark, source, home, 9_999, stream=False)
        return rows.select("n", F.col("`v t`").alias("at"), FAULT)

    return read


def by_folder(spark: SparkSession, home: Path) -> DataFrame:
    for n, v in enumerate(CLOCK_VALUES):
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


@pytest.mark.parametrize("way", drawn_cases(WAYS, 8))
def test_a_value_is_the_same_on_every_day(spark: SparkSession, tmp_path: Path, way: str) -> None:
    found: dict[str, list[tuple[str | None, int | None]]] = {}
    for zone in ZONES:
        with temporary_settings(spark, {"spark.sql.session.timeZone": zone}):
            home = tmp_path / zone.replace("/", "-")
            home.mkdir()
            rows = WAYS[way](spark, home).where(F.col(FAULT).isNull()).where("at is not null")
            for row in rows.selectExpr("n", "cast(at as string)", "unix_micros(cast(at as timestamp)) us").collect():
                found.setdefault(CLOCK_VALUES[row["n"]], []).append((row["at"], row["us"]))
    for value, (one, *others) in found.items():
        assert len(others) == 1, f"in one zone only: {value!r}"
        assert one[0] == others[0][0] or one[1] == others[0][1], f"{value!r} is {one} and {others[0]}"
    assert found.keys() & set(BY_THE_CLOCK) == set()
    assert found.keys() >= {"2024-05-01"}


@pytest.mark.parametrize(
    ("kind", "event_time", "reason"),
    [
        ("string", "try_to_timestamp(ts)", "null_event_time"),
        pytest.param("timestamp", "ts", "wrong_type", marks=pytest.mark.long),
    ],
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
        (file := stage.feed / f"{number}.json").write_text(json.dumps({"user": user, "ts": ts, "id": str(number)}))
        os.utime(file, (number, number))  # Spark reads the oldest first

    drain(spark, stage)

    assert {row["key"]: row["event_count"] for row in table_rows(stage.table("sessions"))} == {"u1": 3, "u2": 2}
    (refused,) = table_rows(stage.table("quarantine"))
    assert (refused["reason"], json.loads(refused["raw"])["ts"]) == (reason, "01:00")
    assert table_rows(stage.table("late_events")) == []
