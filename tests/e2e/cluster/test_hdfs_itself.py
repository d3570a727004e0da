"""Files on a real HDFS, read and written without a JVM."""

import pytest
from upath import UPath

from sessionizer.checkpoint.files import files_of
from sessionizer.home.data_files import write_data_text
from sessionizer.home.roots import folder_at, uri_of
from support.stores.hdfs import Hdfs


@pytest.mark.long
def test_files_are_there_again_after_the_name_node_and_the_data_node_were_killed(
    hdfs: Hdfs, hdfs_folder: UPath
) -> None:
    file = hdfs_folder / "greeting.txt"
    file.write_text("hello")
    assert [found.name for found in hdfs_folder.iterdir()] == ["greeting.txt"]
    hdfs.kill()
    hdfs.start()
    assert file.read_text() == "hello"


@pytest.mark.long
def test_a_folder_of_another_user_is_not_taken_for_an_empty_one(
    hdfs_folder: UPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("offsets/0", "state/0/schema"):
        write_data_text(hdfs_folder / name, "v1")
    hdfs_folder.fs.client.set_permission((hdfs_folder / "state").path, 0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "guest")
    type(hdfs_folder.fs).clear_instance_cache()  # a client keeps its user
    with pytest.raises(OSError, match="Permission denied"):
        files_of(folder_at(uri_of(hdfs_folder)))
    type(hdfs_folder.fs).clear_instance_cache()
