"""Files of a data root in S3, beside what Spark's connector leaves there."""

from __future__ import annotations

import pytest
from upath import UPath

from sessionizer.checkpoint.files import files_of
from sessionizer.home.data_files import (
    files_below,
    list_entries,
    list_names,
    make_listed_folder,
    publish_json,
    relative_name,
    remove_tree,
    rename_folder,
)
from sessionizer.home.roots import folder_at


@pytest.fixture
def folder(s3_folder: str) -> UPath:
    """A checkpoint with two files, and S3A's marks of its folders."""
    found = folder_at(f"{s3_folder}/checkpoint")
    assert isinstance(found, UPath)
    for mark in ("", "offsets/", "state/", "state/0/"):
        found.fs.pipe_file(f"{found.path}/{mark}", b"")
    for name in ("offsets/0", "state/0/schema"):
        (found / name).write_text("v1")
    return found


def test_what_marks_a_folder_is_no_file_of_it(folder: UPath) -> None:
    assert sorted(list_names(folder)) == ["offsets", "state"]
    assert [entry.name for entry in list_entries(folder / "offsets")] == ["0"]
    assert [relative_name(file, folder) for file in files_below(folder)] == ["offsets/0", "state/0/schema"]
    assert sorted(files_of(folder).sizes) == ["offsets/0", "state/0/schema"]


def test_a_folder_is_renamed_and_removed_with_all_in_it(folder: UPath) -> None:
    target = folder.with_name("elsewhere")
    rename_folder(folder, target)
    assert list_names(folder) == []
    assert [relative_name(file, target) for file in files_below(target)] == ["offsets/0", "state/0/schema"]
    remove_tree(target)
    remove_tree(target)
    assert not target.exists()


def test_an_empty_folder_is_there_for_spark(folder: UPath) -> None:
    make_listed_folder(folder / "punctuations")
    assert (folder / "punctuations").is_dir()
    assert list_entries(folder / "punctuations") == []
    publish_json(folder / "punctuations" / "a.json", {"floor_ms": 7})
    publish_json(folder / "punctuations" / "a.json", {"floor_ms": 8})
    assert (folder / "punctuations" / "a.json").read_text().count("7") == 1
