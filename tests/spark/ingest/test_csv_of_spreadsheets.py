"""CSV as spreadsheets write it (RFC 4180): each value as it was, or the record refused whole."""

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import Row, SparkSession

from sessionizer.errors import SourceFileUnfit
from sessionizer.spark.ingest.file_source.lines import FAULT, RAW
from sessionizer.spark.ingest.source import read_source
from sessionizer.stream_spec.document.source import FilesSource
from support.expected.landed import table_rows
from support.places import REPOSITORY
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage

CASE = REPOSITORY / "tests" / "golden" / "csv_quotes"
PIECES = ['"', '""', ",", "\\", "a", " ", "é", "'", "\t", "x,y", '\\"', "\N{REPLACEMENT CHARACTER}"]


def csv_source(columns: str, **options: Any) -> FilesSource:
    return FilesSource(format="files", path="feed", encoding="csv", columns=columns, options=options)


def read(spark: SparkSession, home: Path, source: FilesSource) -> list[Row]:
    return read_source(spark, source, home, 524_288, stream=False).collect()


def stage_of_the_case(root: Path) -> Stage:
    spec = yaml.safe_load((CASE / "spec.yaml").read_text())
    spec["source"]["path"] = "feed"
    return Stage.set_up(root, spec, name="csv_quotes")


def feed(home: Path, content: str | bytes, name: str = "a.csv") -> None:
    (home / "feed").mkdir(exist_ok=True)
    (home / "feed" / name).write_bytes(content.encode() if isinstance(content, str) else content)


def test_the_rows_of_a_spreadsheet(spark: SparkSession, tmp_path: Path) -> None:
    stage = stage_of_the_case(tmp_path)
    (stage.feed / "rows.csv").write_bytes((CASE / "rows.csv").read_bytes())

    drain(spark, stage)
    (session,) = table_rows(stage.table("sessions"))
    pages = {event["event_id"]: event["page"] for event in session["events"]}
    assert pages == json.loads((CASE / "right.json").read_text())
    refused = {row["raw"]: row["reason"] for row in table_rows(stage.table("quarantine"))}
    assert refused == {'u,1714557600000,n1,"two': "malformed", 'lines"': "malformed"}


@pytest.mark.parametrize("quote_all", [True, False])
def test_quoted_values_are_those_that_python_wrote(spark: SparkSession, tmp_path: Path, quote_all: bool) -> None:
    drawn = random.Random(20)
    rows = [["id", *("".join(drawn.choices(PIECES, k=drawn.randint(0, 6))) for _ in range(3))] for _ in range(1_000)]
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL, lineterminator="\r\n").writerows(rows)
    feed(tmp_path, text.getvalue())
    found = read(spark, tmp_path, csv_source("id string, a string, b string, c string"))
    assert [[row[name] or "" for name in ("id", "a", "b", "c")] for row in found] == rows
    assert {row[FAULT] for row in found} == {None}


HARD = b"""\
"user", ts
u,1

  \t
USER,TS
u,soon
""" + b",".join([b"x"] * 30_000) + b"\n" + b"," * 600_000 + b"""
u,2
\xff,3
u,4,5
u
u,"6
v,\xef\xbf\xbd
w "x,7
"x""y",8
"a, ""b",9
"""  # fmt: skip
HARD_ROWS = [
    ("u", 1, None), ("u,soon", None, "wrong_type"), ("x,x", None, "malformed"), (",,,", None, "oversized"),
    ("u", 2, None), ("\ufffd,3", None, "invalid_utf8"), ("u,4,5", None, "malformed"), ("u", None, "malformed"),
    ('u,"6', None, "malformed"), ("v,\ufffd", None, "wrong_type"), ('w "x', 7, None), ('x"y', 8, None),
    ('a, "b', 9, None),
]  # fmt: skip


def test_each_line_is_judged_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    """A line of too many columns takes no other line with it, and a header may stand in quotes."""
    feed(tmp_path, HARD)
    found = read(spark, tmp_path, csv_source("user string, ts bigint", header=True, ignoreLeadingWhiteSpace=True))
    assert len(found) == len(HARD_ROWS)
    for row, (text, ts, fault) in zip(found, HARD_ROWS, strict=True):
        assert row[FAULT] == fault, text
        assert (row[RAW] if fault else row["user"]).startswith(text)
        assert fault or row["ts"] == ts


def test_files_of_another_header_cost_one_start_of_the_query(spark: SparkSession, tmp_path: Path) -> None:
    stage = stage_of_the_case(tmp_path)
    for number in range(4):
        (stage.feed / f"{number}.csv").write_text("user,ts,page,id\nu,1714557600000,/,1\n")
    (stage.feed / "good.csv").write_bytes((CASE / "rows.csv").read_bytes())

    assert len(catch_up(spark, stage)) == 1
    refused = [row for row in table_rows(stage.table("quarantine")) if row["reason"] == "unreadable_file"]
    assert sorted(row["source_position"].rpartition("/")[2] for row in refused) == [f"{n}.csv" for n in range(4)]
    assert {row["raw"] for row in refused} == {
        "the header has page where source.columns has id (column 3). Columns of CSV are matched by position"
    }


def test_a_history_with_another_header_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, "user,ts\nu,1\n", "good.csv")
    feed(tmp_path, "ts,user\n1,u\n", "other.csv")
    with pytest.raises(SourceFileUnfit) as refused:
        read(spark, tmp_path, csv_source("user string, ts bigint", header=True))
    assert refused.value.file.endswith("/other.csv")


@pytest.mark.parametrize("name", ["page", "a page", "a.b", "größe"])
def test_a_column_of_lines_in_quotes_may_have_any_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    feed(tmp_path, 'u,"two\nlines"\n')
    (row,) = read(spark, tmp_path, csv_source(f"user string, `{name}` string", multiLine=True))
    assert (row["user"], row[name], row[FAULT]) == ("u", "two\nlines", None)


@pytest.mark.parametrize(
    ("options", "content", "value"),
    [
        ({"sep": r"\t"}, 'u\t"a ""b"" c"\n', 'a "b" c'),
        ({"sep": ";", "quote": "'"}, "u;'it''s'\n", "it's"),
        ({"sep": "||"}, "u||a,b\n", "a,b"),
        ({"escape": "\\"}, 'u,"a \\"b\\" c"\n', 'a "b" c'),
        ({"comment": "#"}, "# none\nu,#a\n", "#a"),
        ({"lineSep": "|"}, "u,a|", "a"),
        ({"multiLine": True}, 'u,"two\nlines"\n', "two\nlines"),
        ({"encoding": "ISO-8859-1"}, "u,café\n".encode("latin-1"), "café"),
        ({"header": True, "enforceSchema": True}, "any,thing\nu,a\n", "a"),
        ({"nullValue": "-", "emptyValue": "none"}, 'u,""\n', "none"),
    ],
)
def test_options_of_csv_do_something(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], content: str | bytes, value: str
) -> None:
    feed(tmp_path, content)
    rows = read(spark, tmp_path, csv_source("user string, page string", **options))
    assert [(row["user"], row["page"], row[FAULT]) for row in rows] == [("u", value, None)]
