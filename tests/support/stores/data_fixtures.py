"""Where a stream of a test has its data: a parameter of tests, named ``data``."""

from __future__ import annotations

from typing import Final

import pytest
from upath import UPath

from sessionizer.home.roots import uri_of
from support.stores.control_fixtures import new_folder

HOME: Final = "home"
HDFS: Final = "hdfs"
S3: Final = "s3"
AZURE: Final = "azure"

ON_A_PATH_AND_HDFS: Final = pytest.mark.parametrize("data", [HOME, HDFS], indirect=True)
AND_ON_HDFS_IN_THE_LONG_RUN: Final = pytest.mark.parametrize(
    "data", [HOME, pytest.param(HDFS, marks=pytest.mark.long)], indirect=True
)
IN_EVERY_STORE: Final = pytest.mark.parametrize("data", [HOME, HDFS, S3, AZURE], indirect=True)


@pytest.fixture
def data(request: pytest.FixtureRequest) -> str | None:
    """The data root as people give it: None for the home, else a new folder of a real HDFS or of an object store."""
    if request.param == HOME:
        return None
    if request.param in {S3, AZURE}:
        server = request.getfixturevalue("object_store_servers")(request.param)
        return new_folder(server, request.getfixturevalue("monkeypatch"))
    folder = request.getfixturevalue("hdfs_folder")
    assert isinstance(folder, UPath)
    return uri_of(folder)
