"""Files that are not read for their names are told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.spark.ingest.file_source import hidden_files
from sessionizer.spark.ingest.file_source.hidden_files import files_passed_over
from sessionizer.stream_spec.document.source import FilesSource

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def source(path: str) -> FilesSource:
    return FilesSource(format="files", path=path, encoding="text")


def test_they_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    for name in ("a.json", "_b.json", ".c.json", "d_e.json", "_SUCCESS", ".a.json.crc"):
        (tmp_path / name).touch()
    (tmp_path / "_folder").mkdir()
    assert files_passed_over(source("."), tmp_path) == (
        f"2 files are not read in {tmp_path}: names that begin with _ or . are hidden (.c.json, _b.json)"
    )


def test_nothing_is_said_where_none_is_hidden_or_nobody_can_look(tmp_path: Path) -> None:
    (tmp_path / "a.json").touch()
    assert files_passed_over(source("."), tmp_path) is None
    assert files_passed_over(source("nowhere"), tmp_path) is None
    assert files_passed_over(source("s3a://bucket/feed"), tmp_path) is None


def test_no_more_is_looked_at_than_a_start_can_bear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_files, "LOOKED_AT", 1)
    for name in ("_a", "_b", "_c"):
        (tmp_path / name).touch()
    assert (files_passed_over(source("."), tmp_path) or "").startswith("1 file is not read")
