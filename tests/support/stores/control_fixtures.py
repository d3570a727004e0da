"""Where a stream of a test has its control: a parameter of all tests that ask for ``control``."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from upath import UPath

from sessionizer.home.roots import ControlPath, control_root, uri_of
from sessionizer.home.stream_home import StreamHome
from support.stores.object_stores import S3, Azure, Gcs, ObjectStoreServer

PATH: Final = "path"
HDFS: Final = "hdfs"
OBJECT_STORES: Final[dict[str, Callable[[Path], ObjectStoreServer]]] = {"s3": S3, "gcs": Gcs, "azure": Azure}

ON_A_PATH: Final = pytest.mark.parametrize("control", [PATH], indirect=True)


@pytest.fixture(scope="session")
def object_store_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ObjectStoreServer]]:
    """The one server of the test run of each kind, started when first asked for."""
    with ExitStack() as running:

        @cache
        def server(kind: str) -> ObjectStoreServer:
            return running.enter_context(OBJECT_STORES[kind](tmp_path_factory.mktemp(kind)))

        yield server


def new_folder(server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"{server.uri}/{uuid.uuid4().hex[:12]}"


@pytest.fixture
def s3_folder(object_store_servers: Callable[[str], ObjectStoreServer], monkeypatch: pytest.MonkeyPatch) -> str:
    return new_folder(object_store_servers("s3"), monkeypatch)


@pytest.fixture(params=[PATH, *(pytest.param(store, marks=pytest.mark.long) for store in (HDFS, *OBJECT_STORES))])
def control(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlPath:
    """A control root: the parameter says in which store; its folder is new."""
    if request.param == PATH:
        return tmp_path
    if request.param == HDFS:
        return control_root(tmp_path, uri_of(request.getfixturevalue("hdfs_folder")))
    server = request.getfixturevalue("object_store_servers")(request.param)
    return control_root(tmp_path, new_folder(server, monkeypatch))


def home_with(control: ControlPath, tmp_path: Path, name: str = "clicks") -> StreamHome:
    return StreamHome(tmp_path / "streams" / name, control_root=None if control == tmp_path else control)


HOME: Final = "home"
DATA_ON_S3: Final = "s3"
AZURE: Final = "azure"

ON_A_PATH_AND_HDFS: Final = pytest.mark.parametrize("data", [HOME, HDFS], indirect=True)
AND_ON_HDFS_IN_THE_LONG_RUN: Final = pytest.mark.parametrize(
    "data", [HOME, pytest.param(HDFS, marks=pytest.mark.long)], indirect=True
)
IN_EVERY_STORE: Final = pytest.mark.parametrize("data", [HOME, HDFS, DATA_ON_S3, AZURE], indirect=True)


@pytest.fixture
def data(request: pytest.FixtureRequest) -> str | None:
    """The data root as people give it: None for the home, else a new folder of a real HDFS or of an object store."""
    if request.param == HOME:
        return None
    if request.param in {DATA_ON_S3, AZURE}:
        server = request.getfixturevalue("object_store_servers")(request.param)
        return new_folder(server, request.getfixturevalue("monkeypatch"))
    folder = request.getfixturevalue("hdfs_folder")
    assert isinstance(folder, UPath)
    return uri_of(folder)
