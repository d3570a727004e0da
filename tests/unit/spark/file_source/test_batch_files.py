"""The files of a planned batch are looked at before the batch writes anything."""

import bz2
import gzip
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sessionizer.checkpoint.files import SeenFile
from sessionizer.errors import SourceFilesGone, SourceUnreachable
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.spark.driver import prepared_query, query_watch
from sessionizer.spark.driver.prepared_query import BatchFiles, PreparedQuery, require_folder
from sessionizer.spark.driver.query_watch import GONE_AFTER_S, QueryWatch
from sessionizer.spark.ingest.file_source import folder_watch
from sessionizer.spark.ingest.file_source.files import checksum_options, csv_options
from sessionizer.spark.ingest.file_source.folder_watch import FolderWatch, PassedOver, files_passed_over, look_at_folder
from sessionizer.spark.ingest.file_source.unfit_files import (
    UnreadableFiles,
    first_csv_line,
    header_problem,
    other_headers,
)
from sessionizer.stream_spec.document.source import FilesSource
from sessionizer.stream_spec.document.stream import StreamSpec
from support.fixtures.reviewed import Reviewed
from support.places import known, opened

NO_SPARK = cast("SparkSession", None)
"""All files are on this machine."""


def files_source(**changed: Any) -> StreamSpec:
    source = {"format": "files", "path": "feed", "encoding": "json", "columns": "user string, ts bigint"} | changed
    mapping = {"key": "user", "event_time": "timestamp_millis(ts)", "event_id": "ts"}
    return StreamSpec.model_validate({"name": "clicks", "source": source, "mapping": mapping})


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "feed"
    folder.mkdir()
    for name in ("10:00 a.json", "b.json"):
        (folder / name).write_text("user,ts\n")
    uris = [f"file://{(folder / name).as_uri().removeprefix('file://')}" for name in ("10:00 a.json", "b.json")]
    monkeypatch.setattr(prepared_query, "files_of_batch", lambda *_: uris)
    return folder


@pytest.fixture
def files(tmp_path: Path) -> BatchFiles:
    home = StreamHome.of(tmp_path, "clicks")
    home.lineage("L1").records.mkdir(parents=True)
    opened(home.punctuations("L1")).mkdir(parents=True)
    return BatchFiles(home, "L1")


def test_a_batch_runs_whose_files_are_there(brought: Path, files: BatchFiles) -> None:
    files.require(NO_SPARK, files_source(), 3)
    assert (files.error, files.reason()) == (None, None)


def test_a_file_that_is_gone_is_named(brought: Path, files: BatchFiles) -> None:
    (brought / "10:00 a.json").unlink()
    with pytest.raises(SourceFilesGone) as gone:
        files.require(NO_SPARK, files_source(), 3)
    assert gone.value is files.error
    assert gone.value.batch_id == 3
    assert [uri.rpartition("/")[2] for uri in gone.value.files] == ["10%3A00%20a.json"]


def test_a_folder_that_is_gone_is_waited_for(brought: Path, files: BatchFiles) -> None:
    for file in brought.iterdir():
        file.unlink()
    brought.rmdir()
    with pytest.raises(SourceUnreachable):
        files.require(NO_SPARK, files_source(), 3)


def test_a_stream_that_has_run_waits_for_its_folder(brought: Path, files: BatchFiles) -> None:
    source, gone = files_source().source, files_source(path="gone").source
    require_folder(files.home, gone)
    start_lineage(files.home)
    require_folder(files.home, source)
    require_folder(files.home, files_source(path="s3a://bucket/feed").source)
    with pytest.raises(SourceUnreachable) as away:
        require_folder(files.home, gone)
    assert away.value.address.endswith("/gone")


def test_a_file_that_was_put_aside_may_be_gone(brought: Path, files: BatchFiles) -> None:
    uri = (brought / "b.json").as_uri().replace("file:///", "file:/")
    UnreadableFiles.of(files.home, "L1").put_aside(uri, "damaged")
    (brought / "b.json").unlink()
    files.require(NO_SPARK, files_source(), 3)


def test_a_folder_that_stays_away_ends_the_driver_of_an_idle_stream(
    files: BatchFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark takes a missing folder for an empty one, so the stream would be idle, and healthy."""
    now, folder, nothing = 0.0, tmp_path / "feed", cast("Any", None)
    monkeypatch.setattr(query_watch, "time", SimpleNamespace(monotonic=lambda: now))
    watch = QueryWatch(nothing, nothing, nothing, files.home, files_source().source)
    for now in (0.0, GONE_AFTER_S - 1):  # noqa: B007  the watch reads it
        watch.require_source_folder()
    folder.mkdir()
    now = GONE_AFTER_S
    watch.require_source_folder()
    folder.rmdir()
    watch.require_source_folder()
    now += GONE_AFTER_S
    with pytest.raises(SourceUnreachable, match="feed"):
        watch.require_source_folder()


def test_a_query_that_ended_because_its_folder_is_gone_says_so(files: BatchFiles) -> None:
    """Spark says of an option that it was not found."""
    start_lineage(files.home)
    query = cast("PreparedQuery", SimpleNamespace(home=files.home, spec=files_source(), files=files))
    with pytest.raises(SourceUnreachable, match="feed"):
        PreparedQuery.recovered(query, StreamingQueryException("Option 'basePath' not found"))


@pytest.mark.parametrize(
    ("place", "is_local"),
    [
        *((place, True) for place in ("/data/feed", "feed", "file:/data/feed/a.json", "file:///data/feed/a%3Ab.json")),
        *((f"{store}feed", False) for store in ("hdfs://namenode:8020/", "hdfs:///", "s3a://bucket/", "abfss://a@b/")),
    ],
)
def test_local_files_are_read_raw_and_a_reader_of_a_store_leaves_its_client_as_it_is(
    place: str, is_local: bool
) -> None:
    found = checksum_options(place)
    assert found["fs.file.impl"].endswith("RawLocalFileSystem") if is_local else found == {}


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
    """A file that cannot be opened is left to the query."""
    contents = {
        "a b.csv": content,
        "a.gz": gzip.compress(content),
        "a.bz2": bz2.compress(content),
        "bad.gz": b"no gzip",
    }
    for name, written in contents.items():
        (tmp_path / name).write_bytes(written)
    found = {
        name: first_csv_line(NO_SPARK, (tmp_path / name).as_uri(), csv_options(options))
        for name in (*contents, "gone.csv")
    }
    assert found == {**dict.fromkeys(contents, line), "bad.gz": None, "gone.csv": None}


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


TAKEN_MS = 1_700_000_000_123


def take(file: Path) -> dict[str, int]:
    file.touch()
    os.utime(file, ns=(TAKEN_MS * 1_000_000 + 999, TAKEN_MS * 1_000_000 + 999))
    return {str(file): TAKEN_MS}


def test_a_file_that_grew_or_was_replaced_is_told(tmp_path: Path) -> None:
    taken = take(tmp_path / "grew") | take(tmp_path / "replaced") | take(tmp_path / "same") | take(tmp_path / "gone")
    (tmp_path / "new").touch()
    with (tmp_path / "grew").open("a") as file:
        file.write("more\n")
    os.utime(tmp_path / "replaced", (1, 1))
    (tmp_path / "gone").unlink()
    assert look_at_folder(tmp_path, taken, recursive=False) == PassedOver(changed=("grew", "replaced"))


def test_folders_are_told_that_hold_something_and_are_not_looked_into(tmp_path: Path) -> None:
    for name in ("2024/05", "empty", "_hidden/x", ".also/x", "done/x"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a.json").touch()
    apart = str(tmp_path / "done")
    assert look_at_folder(tmp_path, {}, recursive=False, apart=apart) == PassedOver(folders=("2024",))
    assert look_at_folder(tmp_path, {}, recursive=True, apart=apart) == PassedOver()


def test_files_beside_parts_of_a_table_are_told(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "a.json").touch()
    assert look_at_folder(tmp_path, {}, recursive=False) == PassedOver()
    taken = take(tmp_path / "day=1" / "b.json")
    assert look_at_folder(tmp_path, {}, recursive=False) == PassedOver(beside=("a.json",))
    assert look_at_folder(tmp_path, {}, recursive=True) == PassedOver()
    os.utime(tmp_path / "day=1" / "b.json", (1, 1))
    assert look_at_folder(tmp_path, taken, recursive=True) == PassedOver(changed=("day=1/b.json",)), "by its place"


def watch(tmp_path: Path, **options: str) -> FolderWatch:
    source = FilesSource(format="files", path="feed", encoding="text", options=options)
    (tmp_path / "feed").mkdir(exist_ok=True)
    return known(FolderWatch.of(source, StreamHome.of(tmp_path, "clicks"), "L1"))


def test_each_thing_is_said_once_and_warned_of_as_long_as_it_is_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watch, "read_files_since", lambda *_: ([], -1))
    its = watch(tmp_path)
    (tmp_path / "feed" / "2024").mkdir()
    (tmp_path / "feed" / "2024" / "a").touch()
    assert len(its.look()) == 1
    assert its.look() == []
    assert "2024" in (its.warning or "")
    (tmp_path / "feed" / "2024" / "a").unlink()
    assert (its.look(), its.warning) == ([], None)


def test_of_many_files_only_the_newest_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_watch, "LOOKED_AT", 2)
    files = [SeenFile((tmp_path / "feed" / f"{number} é").as_uri(), TAKEN_MS) for number in range(4)]
    monkeypatch.setattr(folder_watch, "read_files_since", lambda _, after: (files, 3) if after < 3 else ([], 3))
    its = watch(tmp_path)
    for name in ("0 é", "3 é"):
        (tmp_path / "feed" / name).touch()
    (line,) = its.look()
    assert "1 file changed" in line
    assert "3 é" in line


def test_nothing_is_watched_that_is_no_folder_of_this_machine(tmp_path: Path) -> None:
    elsewhere = FilesSource(format="files", path="s3a://bucket/feed", encoding="text")
    assert FolderWatch.of(elsewhere, StreamHome.of(tmp_path, "clicks"), "L1") is None


@pytest.mark.parametrize("missing", ["feed", "lineages"])
def test_what_cannot_be_read_ends_nothing(tmp_path: Path, missing: str) -> None:
    its = watch(tmp_path)
    if missing == "feed":
        (tmp_path / "feed").rmdir()
    assert its.look() == []


def passed_over(root: Path, path: str = ".") -> str | None:
    return files_passed_over(FilesSource(format="files", path=path, encoding="text"), root)


def test_they_are_counted_and_the_first_are_named(tmp_path: Path, reviewed: Reviewed) -> None:
    for name in ("a.json", "_b.json", ".c.json", "d_e.json", "_SUCCESS", ".a.json.crc"):
        (tmp_path / name).touch()
    (tmp_path / "_folder").mkdir()
    reviewed(passed_over(tmp_path))


def test_nothing_is_said_where_none_is_hidden_or_nobody_can_look(tmp_path: Path) -> None:
    (tmp_path / "a.json").touch()
    assert [passed_over(tmp_path, path) for path in (".", "nowhere", "s3a://bucket/feed")] == [None] * 3


def test_no_more_is_looked_at_than_a_start_can_bear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed
) -> None:
    monkeypatch.setattr(folder_watch, "LOOKED_AT", 1)
    for name in ("_a", "_b", "_c"):
        (tmp_path / name).touch()
    reviewed(passed_over(tmp_path) or "")
