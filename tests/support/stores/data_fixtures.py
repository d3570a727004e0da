"""Where a stream of a test has its data: a parameter of tests, named ``data``."""

from __future__ import annotations

from typing import Final

import pytest
from upath import UPath

from sessionizer.home.roots import uri_of

HOME: Final = "home"
HDFS: Final = "hdfs"
S3: Final = "s3"

ON_A_PATH_AND_HDFS: Final = pytest.mark.parametrize("data", [HOME, HDFS], indirect=True)
AND_ON_HDFS_IN_THE_LONG_RUN: Final = pytest.mark.parametrize(
    "data", [HOME, pytest.param(HDFS, marks=pytest.mark.long)], indirect=True
)
IN_EVERY_STORE: Final = pytest.mark.parametrize("data", [HOME, HDFS, S3], indirect=True)


@pytest.fixture
def data(request: pytest.FixtureRequest) -> str | None:
    """The data root as people give it: None for the home, else a new folder of a real HDFS or of an S3 server."""
    if request.param == HOME:
        return None
    if request.param == S3:
        return str(request.getfixturevalue("s3_folder"))
    folder = request.getfixturevalue("hdfs_folder")
    assert isinstance(folder, UPath)
    return uri_of(folder)
