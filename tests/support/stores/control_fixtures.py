"""Where a stream of a test has its control: a parameter of all tests that ask for ``control``."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import pytest

from sessionizer.home.roots import control_root, uri_of
from sessionizer.home.stream_home import StreamHome
from support.stores.s3 import BUCKET, S3

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessionizer.home.roots import ControlPath

PATH: Final = "path"
HDFS: Final = "hdfs"
S3_STORE: Final = "s3"

ON_A_PATH: Final = pytest.mark.parametrize("control", [PATH], indirect=True)


@pytest.fixture(scope="session")
def running_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """The one S3 server of the test run."""
    with S3(tmp_path_factory.mktemp("s3")) as s3:
        yield s3


@pytest.fixture
def s3_folder(running_s3: S3, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a new folder there; the environment says how it is reached."""
    for name, value in running_s3.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=[PATH, *(pytest.param(store, marks=pytest.mark.long) for store in (HDFS, S3_STORE))])
def control(request: pytest.FixtureRequest, tmp_path: Path) -> ControlPath:
    """A control root: the parameter says in which store; its folder is new."""
    if request.param == PATH:
        return tmp_path
    folder = request.getfixturevalue(f"{request.param}_folder")
    return control_root(tmp_path, folder if isinstance(folder, str) else uri_of(folder))


def home_with(control: ControlPath, tmp_path: Path, name: str = "clicks") -> StreamHome:
    """The home of stream ``name``; what is in no control root is in a folder of this machine."""
    return StreamHome(tmp_path / "streams" / name, control_root=None if control == tmp_path else control)
