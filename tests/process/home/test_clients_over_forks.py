"""Clients of HDFS in a forked child: none is let go, and the child waits for its parent's connections, once."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from sessionizer.home.data_root import folder_at
from sessionizer.home.forks import outlive_connections_of_the_parent
from sessionizer.home.hdfs_clients import KEPT, KeptHdfsFileSystem

NOBODY = "hdfs://127.0.0.1:9/control"
"""A client is made without a connection."""


def test_a_forked_child_keeps_its_parents_clients() -> None:
    client = folder_at(NOBODY).fs  # type: ignore[union-attr]
    assert isinstance(client, KeptHdfsFileSystem)
    assert client in KEPT
    del client
    assert check_in_child(lambda: bool(KEPT)) == 0


def test_a_library_that_opened_hdfs_before_does_not_keep_ours_away() -> None:
    program = (
        "from upath import UPath; from sessionizer.home.data_root import folder_at;"
        "other = UPath('hdfs://127.0.0.1:9/other').fs;"
        f"print(type(other).__name__, type(folder_at('{NOBODY}').fs).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["HdfsFileSystem", "KeptHdfsFileSystem"]


def test_a_child_waits_for_its_parents_connections_and_the_parent_does_not() -> None:
    folder_at(NOBODY).fs  # type: ignore[union-attr]  # noqa: B018 - it makes the client
    assert waited() < 1
    assert check_in_child(lambda: waited() > 2 and waited() < 1) == 0


def waited() -> float:
    before = time.monotonic()
    outlive_connections_of_the_parent()
    return time.monotonic() - before


def check_in_child(check: object) -> int:
    """Fork, and return the exit code of the child: 0 if ``check`` held there."""
    child = os.fork()
    if child == 0:
        os._exit(0 if callable(check) and check() else 1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
