"""Files that are not read for their names are told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.spark.ingest.file_source import folder_watch
from sessionizer.spark.ingest.file_source.folder_watch import files_passed_over
from sessionizer.stream_spec.document.source import FilesSource

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from support.fixtures.reviewed import Reviewed


def source(path: str) -> FilesSource:
    return FilesSource(format="files", path=path, encoding="text")


def test_they_are_counted_and_the_first_are_named(tmp_path: Path, reviewed: Reviewed) -> None:
    for name in ("a.json", "_b.json", ".c.json", "d_e.json", "_SUCCESS", ".a.json.crc"):
        (tmp_path / name).touch()
    (tmp_path / "_folder").mkdir()
    reviewed(files_passed_over(source("."), tmp_path))


def test_nothing_is_said_where_none_is_hidden_or_nobody_can_look(tmp_path: Path) -> None:
    (tmp_path / "a.json").touch()
    assert files_passed_over(source("."), tmp_path) is None
    assert files_passed_over(source("nowhere"), tmp_path) is None
    assert files_passed_over(source("s3a://bucket/feed"), tmp_path) is None


def test_no_more_is_looked_at_than_a_start_can_bear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed
) -> None:
    monkeypatch.setattr(folder_watch, "LOOKED_AT", 1)
    for name in ("_a", "_b", "_c"):
        (tmp_path / name).touch()
    reviewed(files_passed_over(source("."), tmp_path) or "")
