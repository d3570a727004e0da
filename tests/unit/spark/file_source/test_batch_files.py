"""The files of a planned batch are looked at before the batch writes anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.errors import StreamingQueryException

from sessionizer.errors import SourceFilesGone, SourceUnreachable
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.spark.driver import batch_files
from sessionizer.spark.driver.batch_files import GONE_AFTER_S, BatchFiles, FolderCheck, require_folder
from sessionizer.spark.driver.prepared_query import PreparedQuery
from sessionizer.spark.ingest.unreadable_files import UnreadableFiles
from sessionizer.stream_spec.document.stream import StreamSpec
from support.places import opened

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)
"""All files are on this machine."""


def files_source(**changed: Any) -> StreamSpec:
    source = {"format": "files", "path": "feed", "encoding": "json", "columns": "user string, ts bigint"} | changed
    mapping = {"key": "user", "event_time": "timestamp_millis(ts)", "event_id": "ts"}
    return StreamSpec.model_validate({"name": "clicks", "source": source, "mapping": mapping})


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the two files of every batch."""
    folder = tmp_path / "feed"
    folder.mkdir()
    for name in ("10:00 a.json", "b.json"):
        (folder / name).write_text("user,ts\n")
    uris = [f"file://{(folder / name).as_uri().removeprefix('file://')}" for name in ("10:00 a.json", "b.json")]
    monkeypatch.setattr(batch_files, "files_of_batch", lambda *_: uris)
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


def test_a_folder_that_stays_away_ends_the_driver_of_an_idle_stream(files: BatchFiles, tmp_path: Path) -> None:
    """Spark takes a missing folder for an empty one, so the stream would be idle, and healthy."""
    start_lineage(files.home)
    now, folder = 0.0, tmp_path / "feed"
    check = FolderCheck(files.home, files_source().source, lambda: now)
    for now in (0.0, GONE_AFTER_S - 1):  # noqa: B007  the check reads it
        check.look()
    folder.mkdir()
    now = GONE_AFTER_S
    check.look()
    folder.rmdir()
    check.look()
    now += GONE_AFTER_S
    with pytest.raises(SourceUnreachable, match="feed"):
        check.look()


def test_a_query_that_ended_because_its_folder_is_gone_says_so(files: BatchFiles) -> None:
    """Spark says of an option that it was not found."""
    start_lineage(files.home)
    query = cast("PreparedQuery", SimpleNamespace(home=files.home, spec=files_source(), files=files))
    with pytest.raises(SourceUnreachable, match="feed"):
        PreparedQuery.recovered(query, StreamingQueryException("Option 'basePath' not found"))
