"""A driver tells which files and folders of its source it does not read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sessionizer.checkpoint.file_lists import SeenFile
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.ingest.file_source import folder_watch
from sessionizer.spark.ingest.file_source.folder_watch import FolderWatch, PassedOver, look_at_folder
from sessionizer.stream_spec.document.source import FilesSource

if TYPE_CHECKING:
    from pathlib import Path

TAKEN_MS = 1_700_000_000_123


def take(file: Path) -> dict[str, int]:
    """Have the file be as it was when it was read."""
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
    (tmp_path / "day=1" / "b.json").touch()
    assert look_at_folder(tmp_path, {}, recursive=False) == PassedOver(beside=("a.json",))
    assert look_at_folder(tmp_path, {}, recursive=True) == PassedOver()


def test_a_file_in_a_subfolder_that_is_read_is_told_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "2024").mkdir()
    taken = take(tmp_path / "2024" / "a")
    os.utime(tmp_path / "2024" / "a", (1, 1))
    assert look_at_folder(tmp_path, taken, recursive=True) == PassedOver(changed=("2024/a",))


def watch(tmp_path: Path, **options: str) -> FolderWatch:
    source = FilesSource(format="files", path="feed", encoding="text", options=options)
    (tmp_path / "feed").mkdir(exist_ok=True)
    found = FolderWatch.of(source, StreamHome.of(tmp_path, "clicks"), "L1")
    assert found is not None
    return found


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
    home = StreamHome.of(tmp_path, "clicks")
    elsewhere = FilesSource(format="files", path="s3a://bucket/feed", encoding="text")
    assert FolderWatch.of(elsewhere, home, "L1") is None
    assert watch(tmp_path).look() == [], "no checkpoint yet"


@pytest.mark.parametrize("missing", ["feed", "lineages"])
def test_what_cannot_be_read_ends_nothing(tmp_path: Path, missing: str) -> None:
    its = watch(tmp_path)
    if missing == "feed":
        (tmp_path / "feed").rmdir()
    assert its.look() == []
