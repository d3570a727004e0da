"""The HDFS of the tests is one: written and read without a JVM, and what it holds outlives its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from upath import UPath

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
