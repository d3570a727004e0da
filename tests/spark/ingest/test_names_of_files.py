"""The names of files and folders mean nothing but themselves: no pattern, no scheme."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.errors import InvalidSpec
from sessionizer.spark.ingest.source import read_source
from sessionizer.stream_spec.document.source import FilesSource
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LETTERS = "a:*?[]{}\\,%20# é+&='\"!^-"
SEEN_IN_LIFE = ["2024-05-01T10:00:00.json", "a[1].json", "{b,c}.json", "d*.json", "e?.json", "f%20g.json", "h i.json"]


def random_names(seed: int, count: int) -> list[str]:
    """Names that are not hidden from Spark."""
    random_names = random.Random(seed)
    return [f"n{number}" + "".join(random_names.choices(LETTERS, k=8)) for number in range(count)]


def read(spark: SparkSession, home: Path, path: str) -> list[str]:
    source = FilesSource(format="files", path=path, encoding="text")
    return sorted(row["value"] for row in read_source(spark, source, home, 1_000, stream=False).collect())


@pytest.mark.long
def test_each_file_is_read_whatever_it_is_called(spark: SparkSession, tmp_path: Path) -> None:
    spec: dict[str, Any] = clicks_spec(files_per_batch=100)
    spec["source"]["path"] = "feed/a [b]{c}*"
    stage = Stage.set_up(tmp_path, spec)
    folder = stage.feed / "a [b]{c}*"
    names = [*SEEN_IN_LIFE[1:], *(name.replace(":", "") for name in random_names(1, 10))]
    folder.mkdir()
    for number, name in enumerate(names):
        (folder / name).write_bytes(line(number, "ann"))
    for other in ("a b", "a [b]c", "a [b]{c}d"):
        (stage.feed / other).mkdir()
        (stage.feed / other / "x").write_bytes(line(0, "of another folder"))

    drain(spark, stage)

    sessions = table_rows(stage.table("sessions"))
    assert [(row["key"], row["event_count"]) for row in sessions] == [("ann", len(names))]


def test_a_name_with_a_colon_is_read_like_any_other(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=100))
    names = [*SEEN_IN_LIFE, "10:00", "x:y:z", *random_names(2, 10)]
    for number, name in enumerate(names):
        (stage.feed / name).write_bytes(line(number, "ann"))
    assert catch_up(spark, stage) == [], "nothing was put aside"
    drain(spark, stage)
    sessions = table_rows(stage.table("sessions"))
    assert [(row["key"], row["event_count"]) for row in sessions] == [("ann", len(names))]


@pytest.mark.parametrize("name", ["a[1]", "{b,c}", "d*", "e?", "f\\g", "h%20i", "j#k", "l:m", "n]", "o{", "p\\[q"])
def test_a_folder_is_read_whatever_it_is_called(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").write_text("its own\n")
    for other in ("a1", "b", "dd", "ee", "fg", "h i"):
        (tmp_path / other).mkdir()
        (tmp_path / other / "file").write_text("of another\n")
    assert read(spark, tmp_path, name) == ["its own"]


def test_a_folder_that_hadoop_cannot_look_for_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a[1]:b").mkdir()
    with pytest.raises(InvalidSpec) as refused:
        read(spark, tmp_path, "a[1]:b")
    assert (refused.value.field, refused.value.value) == ("source.path", "a[1]:b")


def test_a_pattern_at_a_uri_that_names_no_folder_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "day1").mkdir()
    path = f"file://{tmp_path}/day*"
    with pytest.raises(InvalidSpec) as refused:
        read(spark, tmp_path, path)
    assert refused.value.field == "source.path"


def test_subfolders_are_read_where_the_spec_says_so(spark: SparkSession, tmp_path: Path) -> None:
    spec: dict[str, Any] = clicks_spec(files_per_batch=100)
    spec["source"]["options"]["recursiveFileLookup"] = True
    stage = Stage.set_up(tmp_path, spec)
    for number, folder in enumerate([".", "2024/05/01", "day=1", "a[1]/10:00"]):
        (stage.feed / folder).mkdir(parents=True, exist_ok=True)
        (stage.feed / folder / "part-0").write_bytes(line(number, "ann"))

    drain(spark, stage)

    sessions = table_rows(stage.table("sessions"))
    assert [(row["key"], row["event_count"]) for row in sessions] == [("ann", 4)]
