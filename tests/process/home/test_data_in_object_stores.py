"""Files of a data root in an object store, beside what Spark's connectors leave there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import BlobServiceClient
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
from support.stores.control_fixtures import new_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.stores.object_stores import ObjectStoreServer


FOLDERS = ("", "/offsets", "/state", "/state/0")


@pytest.fixture(params=["s3", pytest.param("azure", marks=pytest.mark.long)])
def folder(
    request: pytest.FixtureRequest,
    object_store_servers: Callable[[str], ObjectStoreServer],
    monkeypatch: pytest.MonkeyPatch,
) -> UPath:
    """A checkpoint with two files, and the connector's marks of its folders."""
    found = folder_at(f"{new_folder(object_store_servers(request.param), monkeypatch)}/checkpoint")
    assert isinstance(found, UPath)
    for each in FOLDERS:
        if request.param == "s3":
            found.fs.pipe_file(f"{found.path}{each}/", b"")
        else:
            mark_on_azure(f"{found.path}{each}")
    for name in ("offsets/0", "state/0/schema"):
        (found / name).write_text("v1")
    return found


def mark_on_azure(path: str) -> None:
    """An empty blob with the folder's name, which its metadata call a folder."""
    container, _, name = path.partition("/")
    with BlobServiceClient.from_connection_string(os.environ["AZURE_STORAGE_CONNECTION_STRING"]) as client:
        client.get_blob_client(container, name).upload_blob(b"", metadata={"hdi_isfolder": "true"})


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
