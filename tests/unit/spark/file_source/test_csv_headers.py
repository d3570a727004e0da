"""The header of a CSV file is compared with the columns before a row of the file is used."""

from __future__ import annotations

import bz2
import gzip
from typing import TYPE_CHECKING, Any, cast

import pytest

from sessionizer.spark.ingest.file_source.files import csv_options
from sessionizer.spark.ingest.file_source.unfit_files import first_csv_line, header_problem, other_headers
from sessionizer.stream_spec.document.source import FilesSource

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)
"""For files that are opened here."""
NAMES = ["user", "Time", "a b"]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("user,Time,a b", {}),
        ("USER,time,A B", {}),
        ('"user","Time","a b"', {}),
        ("'user',Time,'a b'", {"quote": "'"}),
        ("user , Time, a b", {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}),
        ("user\tTime\ta b", {"sep": r"\t"}),
        ("user||Time||a b", {"delimiter": "||"}),
        ("user;Time;a b", {"SEP": ";", "quote": ""}),
    ],
)
def test_a_header_may_be_spelt_in_many_ways(line: str, options: dict[str, str]) -> None:
    assert header_problem(line, NAMES, csv_options(options)) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Time,user,a b", "the header has Time where source.columns has user (column 1)"),
        ("user,Time,", "the header has  where source.columns has a b (column 3)"),
        ("user,Time", "the header has 2 columns where source.columns has 3"),
        ("user,Time,a b,c", "the header has 4 columns where source.columns has 3"),
        ("u" * 200_000 + ",Time,a b", "the header is no CSV"),
    ],
)
def test_the_first_difference_is_named(line: str, said: str) -> None:
    assert (header_problem(line, NAMES, csv_options({})) or "").startswith(said)


@pytest.mark.parametrize(
    ("content", "options", "line"),
    [
        (b"user,ts\nu,1\n", {}, "user,ts"),
        (b"\xef\xbb\xbfuser,ts\r\nu,1\r\n", {}, "user,ts"),
        (b"\n  \r# none\ruser,ts\ru,1", {"comment": "#"}, "user,ts"),
        (b"", {}, None),
        (b"\n \n", {}, None),
    ],
)
def test_the_first_line_that_says_something(
    tmp_path: Path, content: bytes, options: dict[str, str], line: str | None
) -> None:
    for name, compressed in {
        "a b.csv": content,
        "a.gz": gzip.compress(content),
        "a.bz2": bz2.compress(content),
    }.items():
        (tmp_path / name).write_bytes(compressed)
        assert first_csv_line(NO_SPARK, (tmp_path / name).as_uri(), csv_options(options)) == line


def test_a_file_that_cannot_be_opened_is_left_to_the_query(tmp_path: Path) -> None:
    (tmp_path / "broken.gz").write_bytes(b"no gzip")
    for name in ("broken.gz", "gone.csv"):
        assert first_csv_line(NO_SPARK, (tmp_path / name).as_uri(), csv_options({})) is None


@pytest.mark.parametrize(
    ("encoding", "options"),
    [
        ("csv", {}),
        ("csv", {"header": "true", "enforceSchema": "true"}),
        ("csv", {"header": "true", "multiLine": "true"}),
        ("csv", {"header": "true", "encoding": "latin1"}),
        ("json", {}),
    ],
)
def test_no_header_is_compared_where_spark_does_it_or_there_is_none(
    tmp_path: Path, encoding: Any, options: dict[str, str]
) -> None:
    (tmp_path / "a.csv").write_text("other,header\n")
    source = FilesSource(format="files", path="f", encoding=encoding, columns="user string, ts int", options=options)
    assert other_headers(NO_SPARK, source, [(tmp_path / "a.csv").as_uri()]) == {}
