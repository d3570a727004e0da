"""Fixtures with a real HDFS and a real YARN; ``pytest_plugins`` in ``tests/conftest.py`` makes them known."""

import uuid
from collections.abc import Iterator

import pytest
from upath import UPath

from support.processes.yarn import Yarn
from support.stores.hdfs import Hdfs


@pytest.fixture(scope="session")
def running_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as hdfs:
        yield hdfs


@pytest.fixture
def hdfs(running_hdfs: Hdfs) -> Hdfs:
    """``hdfs.uri`` and ``hdfs.configuration`` (a HADOOP_CONF_DIR); up again if the test before has left it down."""
    running_hdfs.start()
    return running_hdfs


@pytest.fixture
def hdfs_folder(hdfs: Hdfs) -> UPath:
    """A new folder of the test's own in HDFS; Python reaches it without a JVM."""
    folder = UPath(f"{hdfs.uri}/tests/{uuid.uuid4().hex[:12]}")
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="session")
def running_yarn(running_hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with Yarn(tmp_path_factory.mktemp("yarn"), running_hdfs.configuration / "core-site.xml") as yarn:
        yield yarn


@pytest.fixture
def yarn(running_yarn: Yarn, hdfs: Hdfs) -> Yarn:
    """``yarn.configuration`` is a HADOOP_CONF_DIR for both; up again if the test before has left it down."""
    running_yarn.start()
    return running_yarn
