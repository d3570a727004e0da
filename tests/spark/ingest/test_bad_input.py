"""What is wrong is quarantined for the right reason; its neighbours and the watermark are unharmed."""

import bz2
import gzip
import json
import lzma
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from sessionizer.checkpoint.log_entries import list_begun_batches, list_committed_batches, read_planned_batch
from sessionizer.spark.ingest.file_source.lines import FAULT, parse_lines
from support.expected.landed import table_rows
from support.faults.bad_clicks import BAD_LINES, BLANK_LINES, GOOD_LINES, GOOD_SESSIONS, START_MS, line
from support.places import REPOSITORY
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.in_process import catch_up, drain
from support.streams.drawn_logs import commit, draw
from support.streams.stage import Stage, clicks_spec

ACCESS_LOG = REPOSITORY / "dags" / "streams" / "access_log.yaml"


def reasons_of(stage: Stage) -> Counter[str]:
    return Counter(row["reason"] for row in table_rows(stage.table("quarantine")))


def name_of(row: dict[str, Any]) -> str:
    """The file of a quarantined row."""
    return str(row["source_position"].rpartition("/")[2])


def sizes_of_sessions(stage: Stage) -> dict[str, list[int]]:
    sizes: dict[str, list[int]] = {}
    for row in table_rows(stage.table("sessions")):
        sizes.setdefault(row["key"], []).append(row["event_count"])
    return sizes


def test_bad_json_is_quarantined_for_the_right_reason(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    bad = [text for text, _ in BAD_LINES.values()]
    (stage.feed / "1.json").write_bytes(b"\n".join([*GOOD_LINES[:5], *BLANK_LINES, *bad, *GOOD_LINES[5:]]) + b"\n")
    (stage.feed / "2.json").write_bytes(b"")
    # had any time of the first file been believed, this would be late
    (stage.feed / "3.json").write_bytes(line(8, "cy") + b"\n" + line(9, "cy"))

    drain(spark, stage)

    found = Counter((row["raw"], row["reason"]) for row in table_rows(stage.table("quarantine")))
    wanted = Counter((text.decode(errors="replace"), reason) for text, reason in BAD_LINES.values())
    assert found == wanted, [(raw[:80], reason) for raw, reason in (found - wanted) + (wanted - found)]
    assert all(row["source_position"].endswith("/1.json") for row in table_rows(stage.table("quarantine")))
    assert sizes_of_sessions(stage) == {key: [size] for key, size in GOOD_SESSIONS.items()} | {"cy": [2]}
    assert table_rows(stage.table("late_events")) == []
    newest_ms = START_MS + 9_000
    # Spark's own at the start of each batch, and of each but that of the drain
    batches = sorted(list_begun_batches(stage.checkpoint))
    watermarks = [read_planned_batch(stage.checkpoint, batch_id).watermark_ms for batch_id in batches]
    assert max(mark for mark in watermarks if mark < newest_ms) <= newest_ms - 10_000


def test_a_record_without_a_value_is_no_blank_line(spark: SparkSession) -> None:
    """Somebody sent it: a tombstone of Kafka's, whose value is null, or an empty one."""
    records = spark.createDataFrame([(None,), ("",), (" ",)], "value string")
    parsed = parse_lines(records, "json", "key string", {}, max_event_bytes=100)
    assert [row[FAULT] for row in parsed.collect()] == ["malformed"] * 3


@pytest.mark.usefixtures("either_way")
def test_a_part_that_expressions_share_fails_each_of_them_alone(spark: SparkSession, tmp_path: Path) -> None:
    spec = clicks_spec()
    spec["mapping"]["event_time"] = "timestamp_seconds(ts)"
    spec["mapping"]["payload"] = {"micros": "unix_micros(timestamp_seconds(ts))"}
    spec["measures"] = {"latest": "max(micros)"}
    stage = Stage.set_up(tmp_path, spec)
    good = [line(number, "ann", ts=START_MS // 1_000 + number) for number in range(2)]
    (stage.feed / "1.json").write_bytes(b"\n".join([good[0], line(0, ts=2**62), good[1]]))

    drain(spark, stage)

    assert sizes_of_sessions(stage) == {"ann": [2]}
    assert reasons_of(stage) == {"null_event_time": 1}


def csv_spec(**source: Any) -> dict[str, Any]:
    """The time is in seconds, and nothing protects the expression that reads it. ``source``: fields in place of CSV."""
    columns = "event_id string, user_id string, ts double, page string, timeout_ms bigint"
    files = {"encoding": "csv", "columns": columns, "options": {"maxFilesPerTrigger": 1, "header": "true"}}
    mapping = {"key": "user_id", "event_time": "timestamp_seconds(ts)", "event_id": "event_id"}
    return {
        **clicks_spec(),
        "source": {"format": "files", "path": "feed", **(files | source)},
        "mapping": {**mapping, "timeout_ms": "timeout_ms", "payload": {"page": "page"}},
    }


DELTA = {"source": {"format": "delta", "path": "feed", "options": {"maxFilesPerTrigger": 1}}}


CSV_HEADER = b"event_id,user_id,ts,page,timeout_ms"
START_S = START_MS // 1_000
BAD_CSV = {
    b"1,victim,soon,/,": "wrong_type",
    b"2,victim,%d" % START_S: "malformed",
    b"3,victim,%d,/,,more" % START_S: "malformed",
    b"4,,%d,/," % START_S: "null_key",
    b",victim,%d,/," % START_S: "null_event_id",
    b"6,victim,,/,": "null_event_time",
    b"7,victim,NaN,/,": "null_event_time",
    b"8,victim,1e300,/,": "future_event_time",
    b"9,victim,-5,/,": "non_positive_event_time",
    b"10,victim,%d000,/," % START_S: "future_event_time",
    b"11,victim,253402300799,/,": "future_event_time",
    b"12,victim,%d,/,0" % START_S: "non_positive_timeout",
    b"13,victim,%d,/,99999999999999999999" % START_S: "wrong_type",
    b"14,victim,%d,/\xc3\x28\xff," % START_S: "invalid_utf8",
    b"15,victim,%d,%b," % (START_S, b"x" * 1_048_576): "oversized",
}


def test_bad_csv_is_quarantined_for_the_right_reason(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, csv_spec())
    good = [b'%d,ann,%d,"/a, b",' % (number, START_S + number) for number in range(4)]
    (stage.feed / "1.csv").write_bytes(b"\n".join([CSV_HEADER, *good[:2], *BAD_CSV, *good[2:]]))
    (stage.feed / "2.csv").write_bytes(b"")

    drain(spark, stage)

    assert reasons_of(stage) == Counter(BAD_CSV.values())
    assert sizes_of_sessions(stage) == {"ann": [4]}
    assert table_rows(stage.table("late_events")) == []
    raw = [row["raw"] for row in table_rows(stage.table("quarantine"))]
    assert all(raw), "each can be looked at"


@pytest.mark.long
def test_a_csv_whose_header_has_another_order_is_put_aside_and_says_where(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, csv_spec())
    (stage.feed / "1.csv").write_bytes(CSV_HEADER + b"\n1,ann,%d,/," % START_S)
    (stage.feed / "2.csv").write_bytes(b"event_id,ts,user_id,page,timeout_ms\n2,%d,ann,/," % START_S)
    (stage.feed / "3.csv").write_bytes(CSV_HEADER.upper() + b"\n\n3,ann,%d,/,\n\n" % START_S)

    drain(spark, stage)

    (row,) = table_rows(stage.table("quarantine"))
    assert (row["reason"], name_of(row)) == ("unreadable_file", "2.csv")
    assert row["raw"] == (
        "the header has ts where source.columns has user_id (column 2). Columns of CSV are matched by position"
    )
    assert sizes_of_sessions(stage) == {"ann": [2]}


@pytest.mark.long
def test_log_lines_that_are_none_are_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    spec = yaml.safe_load(ACCESS_LOG.read_text())
    spec["source"]["path"] = "feed"
    stage = Stage.set_up(tmp_path, spec, name="access_log")
    at = "[05/Mar/2024:14:07:{:02} +0000]"
    visit = '203.0.113.7 - - {} "GET /cart HTTP/1.1" 200 5120 "https://shop.example/" "Mozilla/5.0"'
    good = [visit.format(at.format(second)).encode() for second in (31, 32)]
    bad = {
        b"kernel: out of memory": "null_key",
        b"": "null_key",
        visit.format("[05/Mar/2024:14:07]").encode(): "null_event_time",
        visit.format("[31/Feb/2024:14:07:31 +0000]").encode(): "null_event_time",
        visit.format("[05/Mar/1969:14:07:31 +0000]").encode(): "non_positive_event_time",
        visit.format("[05/Mar/9999:14:07:31 +0000]").encode(): "future_event_time",
        good[0].replace(b"cart", b"\xc3\x28\xff"): "invalid_utf8",
        good[0].replace(b"cart", b"c" * 1_048_576): "oversized",
        good[0][:60]: "null_key",
    }
    (stage.feed / "1.log").write_bytes(b"\n".join([good[0], *bad, good[1]]))

    drain(spark, stage)

    assert reasons_of(stage) == Counter(bad.values())
    assert [row["event_count"] for row in table_rows(stage.table("sessions"))] == [2]


DELTA_COLUMNS = str(csv_spec()["source"]["columns"])
BAD_DELTA = [
    (("1", None, float(START_S), "/", None), "null_key"),
    ((None, "victim", float(START_S), "/", None), "null_event_id"),
    (("3", "victim", None, "/", None), "null_event_time"),
    (("4", "victim", float("nan"), "/", None), "null_event_time"),
    (("5", "victim", -1.0, "/", None), "non_positive_event_time"),
    (("6", "victim", START_S * 1_000.0, "/", None), "future_event_time"),
    (("7", "victim", float("inf"), "/", None), "null_event_time"),
    (("8", "victim", float(START_S), "/", -1), "non_positive_timeout"),
    (("9", "victim", float(START_S), "x" * 1_048_576, None), "oversized"),
]


@pytest.mark.long
def test_a_delta_table_with_bad_rows_and_then_another_column(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, csv_spec() | DELTA)
    good = [(f"{number}", "ann", float(START_S + number), "/a", None) for number in range(4)]
    rows = spark.createDataFrame([*good[:2], *(row for row, _ in BAD_DELTA)], DELTA_COLUMNS)
    no_utf8 = spark.sql(
        f"select '10' event_id, 'victim' user_id, {START_S}D ts, cast(unhex('2FC328FF') as string) page, "
        "cast(null as bigint) timeout_ms"
    )
    rows.union(no_utf8).write.format("delta").mode("overwrite").save(str(stage.feed))
    catch_up(spark, stage)
    more = spark.createDataFrame([(*row, "new") for row in good[2:]], f"{DELTA_COLUMNS}, device string")
    more.write.format("delta").mode("append").option("mergeSchema", "true").save(str(stage.feed))
    drain(spark, stage)

    assert reasons_of(stage) == Counter([*(reason for _, reason in BAD_DELTA), "invalid_utf8"])
    assert sizes_of_sessions(stage) == {"ann": [4]}
    assert table_rows(stage.table("late_events")) == []
    raw = {row["reason"]: json.loads(row["raw"]) for row in table_rows(stage.table("quarantine"))}
    assert raw["null_key"]["event_id"] == "1", "the event as mapped, for want of a text"


@pytest.mark.long
def test_a_column_added_while_the_stream_runs_does_not_end_the_driver(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, csv_spec() | DELTA)

    def commits() -> int:
        return len(list_committed_batches(stage.checkpoint)) if stage.lineage else 0

    good = [(f"{second}", "ann", float(START_S + second), "/a", None) for second in range(4)]
    write_deltalake(stage.feed, parquet_table(*good[:2]))
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(lambda: commits() > 0, "a first batch")
        more = parquet_table(*good[2:]).append_column("device", pa.array(["tv", "phone"]))
        write_deltalake(stage.feed, more, mode="append", schema_mode="merge")
        driver.wait_for_line("the columns of the source changed")
        before = commits()
        driver.wait_for(lambda: commits() > before, "a batch with the new column")
        driver.kill_all()
    run_to_end(stage, "b")
    assert sizes_of_sessions(stage) == {"ann": [4]}


def parquet_table(*rows: tuple[Any, ...], **types: pa.DataType) -> pa.Table:
    schema = {"event_id": pa.string(), "user_id": pa.string(), "ts": pa.float64(), "page": pa.string()}
    schema |= {"timeout_ms": pa.int64(), **types}
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), schema.values(), strict=True)]
    return pa.table(dict(zip(schema, columns, strict=True)))


def write_bad_parquet(folder: Path, good: Path) -> dict[str, str]:
    """Files that cannot be read: name to a word of what is wrong with them."""
    whole = good.read_bytes()
    (folder / "b empty.parquet").write_bytes(b"")
    (folder / "c-truncated.parquet").write_bytes(whole[:-20])
    (folder / "d-text.parquet").write_bytes(b"event_id,user_id\n1,victim\n")
    damaged = bytearray(whole)
    pages = slice(4, len(whole) // 2)
    damaged[pages] = bytes(byte ^ 0x5A for byte in damaged[pages])
    (folder / "e-damaged.parquet").write_bytes(bytes(damaged))
    other = parquet_table(("1", "victim", "2026-03-01", "/", None), ts=pa.string())
    pq.write_table(other, folder / "f-other-type.parquet")
    return {
        "b%20empty.parquet": "the file is empty",
        "c-truncated.parquet": "is not a Parquet file",
        "d-text.parquet": "is not a Parquet file",
        "e-damaged.parquet": ": ",
        "f-other-type.parquet": "ts",
    }


@pytest.mark.long
def test_parquet_files_that_cannot_be_read_are_quarantined_whole(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, csv_spec(encoding="parquet", options={"maxFilesPerTrigger": 2}))
    good = [(f"{number}", "ann", float(START_S + number), "/a", None) for number in range(200)]
    pq.write_table(parquet_table(*good[:100]), stage.feed / "a.parquet")
    bad = write_bad_parquet(stage.feed, stage.feed / "a.parquet")
    # a column that is unknown and one that is missing are no damage
    more = parquet_table(*good[100:]).drop_columns("timeout_ms").append_column("device", pa.array(["new"] * 100))
    pq.write_table(more, stage.feed / "g.parquet")
    for name in ("c-truncated.parquet", "e-damaged.parquet"):
        # read in the order of their age, neighbours of both kinds in one batch
        os.utime(stage.feed / name, (1_700_000_000, 1_700_000_000))

    run_to_end(stage, "a")

    quarantined = table_rows(stage.table("quarantine"))
    assert {row["reason"] for row in quarantined} == {"unreadable_file"}
    assert sorted(name_of(row) for row in quarantined) == sorted(bad)
    for row in quarantined:
        assert bad[name_of(row)] in row["raw"]
        assert "NO_HINT" not in row["raw"]
    assert sizes_of_sessions(stage) == {"ann": [200]}


def bad_compressions() -> dict[str, tuple[bytes, str]]:
    """Files that Spark reads as garbage, as empty, or not at all: name to content and a word of the reason."""
    text = b"\n".join(line(number, "victim") for number in range(500))
    packed, blocked = gzip.compress(text), bz2.compress(text, 1)
    frames = pa.BufferOutputStream()
    with pa.CompressedOutputStream(frames, "lz4") as stream:
        stream.write(text)
    return {
        "cut.json.gz": (packed[:-6], "Unexpected end of input stream"),
        "plain.json.gz": (text, "not gzip"),
        "zeros.json.gz": (packed + bytes(512), "not a gzip file"),
        "damaged.json.gz": (packed[:-8] + b"\xff" * 4 + packed[-4:], "CRC"),
        "cut.json.bz2": (blocked[:-40], "unexpected end of stream"),
        "plain.json.bz2": (text, "not bzip2"),
        "plain.json.zst": (text, "not zstd"),
        "cut.json.zst": (pa.compress(text, codec="zstd", asbytes=True)[:-20], "Truncated source"),
        "plain.json.lz4": (text, "not lz4"),
        "frames.json.lz4": (frames.getvalue().to_pybytes(), "lz4 in frames"),
        "plain.json.snappy": (text, "not snappy"),
        "plain.json.deflate": (text, "incorrect header check"),
        "gzip.json": (packed, "gzip"),
        "gzip.json.GZ": (packed, "gzip"),
        "bzip2.json": (blocked, "bzip2"),
        "xz.json.xz": (lzma.compress(text), "xz"),
        "zip.json.zip": (b"PK\x03\x04" + packed, "zip"),
        "rows.json": (b"PAR1\x15" + packed, "Parquet"),
    }


BAD_COMPRESSIONS = bad_compressions()
DRAWN = draw(range(len(BAD_COMPRESSIONS)), 6, commit())
"""What `make test` reads: each file ends a query, and the next one goes on without it."""


@pytest.mark.parametrize("numbers", [DRAWN, pytest.param(range(len(BAD_COMPRESSIONS)), marks=pytest.mark.long)])
def test_compressed_files_that_cannot_be_read_are_quarantined_whole_with_the_reason(
    spark: SparkSession, tmp_path: Path, numbers: Sequence[int]
) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=30))
    bad = {name: word for name, (_, word) in BAD_COMPRESSIONS.items() if [*BAD_COMPRESSIONS].index(name) in numbers}
    for name in bad:
        (stage.feed / name).write_bytes(BAD_COMPRESSIONS[name][0])
    good = b"\n".join(line(number, "ann") for number in range(4))
    (stage.feed / "a.json.gz").write_bytes(gzip.compress(good))
    (stage.feed / "b.json.bz2").write_bytes(bz2.compress(good))  # repeats
    drain(spark, stage)
    quarantined = {name_of(row): row for row in table_rows(stage.table("quarantine"))}
    assert {row["reason"] for row in quarantined.values()} == {"unreadable_file"}
    said = {name: row["raw"] for name, row in quarantined.items()}
    assert said.keys() == bad.keys()
    assert {name: raw for name, raw in said.items() if bad[name] not in raw} == {}
    assert sizes_of_sessions(stage) == {"ann": [4]}
