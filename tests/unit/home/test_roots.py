"""Roots of a home: where control records and data lie, and which home they belong to."""

import json
import os
import socket
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from upath import UPath

from sessionizer.control.lease import UNREACHABLE_LIMIT_S
from sessionizer.control.timeouts import TAKEOVER_AFTER_MS
from sessionizer.errors import ControlUnreachable, DamagedFile, InvalidSpec, StoreUnreachable, UnwritablePath
from sessionizer.fleet.table_queries import table_place
from sessionizer.home.control_store import ANSWERS_WITHIN_S
from sessionizer.home.data_files import list_names, make_writable, make_writable_control, publish_json, remove_tree
from sessionizer.home.home_identity import home_id, owner_name
from sessionizer.home.record_file import examine_json, write_json
from sessionizer.home.roots import (
    CONTROL_VARIABLE,
    ControlPath,
    DataPath,
    ObjectStore,
    control_root,
    data_root,
    hadoop_settings,
    home_at,
    is_local,
    object_store,
    platform_home,
    uri_of,
)
from sessionizer.home.stream_home import StreamHome, stream_homes
from sessionizer.launch.jars import jar_names
from sessionizer.lineage.active import active_lineage, start_lineage
from support.fixtures.reviewed import Reviewed
from support.places import known, opened


@pytest.mark.parametrize("uri", ["hdfs://namenode:8020/control", "hdfs://nameservice/a/control"])
def test_the_environment_says_where_control_is(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONTROL_VARIABLE, f"{uri}/")
    home = StreamHome.of(tmp_path, "clicks")
    assert uri_of(home.control / "desired.json") == f"{uri}/streams/clicks/control/desired.json"
    assert uri_of(home.lineage("a").records) == f"{uri}/streams/clicks/control/lineages/a"
    assert home.checkpoint("a") == tmp_path / "streams/clicks/lineages/a/checkpoint"
    assert home.driver_log("a") == tmp_path / "streams/clicks/logs/driver.a.log"
    assert home.submission("a") == tmp_path / "streams/clicks/control/submit.a"
    monkeypatch.setenv(CONTROL_VARIABLE, str(tmp_path))
    assert StreamHome.of(tmp_path, "clicks") == StreamHome(tmp_path / "streams/clicks")


def test_control_may_be_at_another_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONTROL_VARIABLE, str(tmp_path / "shared"))
    home = StreamHome.of(tmp_path / "home", "clicks")
    home.prepare()
    home.prepare_own()
    lineage = start_lineage(home)
    assert (tmp_path / "shared/streams/clicks/control/lineage.json").exists()
    assert (tmp_path / "shared/home.json").exists()
    assert [found.name for found in stream_homes(tmp_path / "home")] == ["clicks"]
    assert active_lineage(StreamHome.of(tmp_path / "another home", "clicks")) == lineage
    assert {path.name for path in (tmp_path / "home/streams/clicks").iterdir()} == {"control", "lineages", "logs"}


@pytest.mark.parametrize(
    "given",
    [
        "s3a://bucket/control", "gs://bucket", "memory://there/control", "webhdfs://namenode:9870/control",
        "abfss://container/control", "abfss://container@account.dfs.core.windows.net/",
        "viewfs://cluster/control", "hdfs:///control", "hdfs://namenode:8020/", "s3://bucket", "s3://key:hidden@bucket/c",
        "hdfs://[namenode/control", "file://shared/control",
    ],
)  # fmt: skip
def test_a_store_that_is_not_known_to_create_in_one_step_is_refused_by_name(
    given: str, tmp_path: Path, reviewed: Reviewed
) -> None:
    with pytest.raises(InvalidSpec) as caught:
        control_root(tmp_path, given)
    reviewed(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "package", "extra"),
    [
        ("s3://bucket/control", "s3fs", "s3"),
        ("gs://bucket/control", "gcsfs", "gcs"),
        ("abfss://container@account.dfs.core.windows.net/control", "adlfs", "azure"),
    ],
)
def test_a_store_whose_package_is_missing_is_refused(
    uri: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    known = sys.modules["fsspec.registry"].__dict__["_registry"]
    monkeypatch.delitem(known, uri.partition(":")[0], raising=False)  # who has asked for it before
    with pytest.raises(InvalidSpec, match=rf"^SESSIONIZER_CONTROL is '{uri}'\. .*streaming-state\[{extra}\]"):
        control_root(tmp_path, uri)


def test_a_store_that_creates_what_exists_is_refused(monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed) -> None:
    """What is in memory takes every put, as an object store does that knows no conditional ones."""
    folder = UPath("memory://control/leases")
    put = type(folder.fs).pipe_file
    monkeypatch.setattr(type(folder.fs), "pipe_file", lambda fs, path, value, mode="": put(fs, path, value))
    with pytest.raises(InvalidSpec) as raised:
        make_writable_control([folder])
    reviewed(raised.value)


def test_a_store_that_does_not_listen_is_told_at_once(reviewed: Reviewed) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        folder = control_root_at(f"hdfs://127.0.0.1:{taken.getsockname()[1]}/control")
        reading = examine_json(folder / "lease.json")
        assert isinstance(reading.error, ControlUnreachable)
        assert "Connection refused" in str(reading.error)
        with pytest.raises(ControlUnreachable) as raised:
            write_json(folder / "lease.json", {})
        reviewed(raised.value, port=taken.getsockname()[1])


def test_a_store_that_keeps_silent_is_not_waited_for_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    unanswered = UNREACHABLE_LIMIT_S + 4 * ANSWERS_WITHIN_S
    assert unanswered * 1_000 < TAKEOVER_AFTER_MS * 2 / 3, "a driver has the rest for its end"
    monkeypatch.setattr("sessionizer.home.control_store.ANSWERS_WITHIN_S", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        folder = control_root_at(f"hdfs://127.0.0.1:{silent.getsockname()[1]}/control")
        assert isinstance(examine_json(folder / "lease.json").error, ControlUnreachable)


def control_root_at(uri: str) -> ControlPath:
    return control_root(Path("/home/of/us"), uri)


HOME = Path("/home/of/us")


@pytest.fixture(params=["path", "elsewhere"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> DataPath:
    """An empty folder, mounted here or not: what is in memory has the manners of an object store."""
    found: DataPath = tmp_path if request.param == "path" else UPath(f"memory://{uuid.uuid4().hex}/data")
    opened(found).mkdir(parents=True, exist_ok=True)
    return found


@pytest.mark.parametrize("given", [None, "", str(HOME), f"file://{HOME}", f"{HOME}/"])
def test_the_home_is_the_data_root_where_no_other_is_given(given: str | None) -> None:
    assert data_root(given, HOME) is None
    assert StreamHome.of(HOME, "clicks", None).tables == HOME / "streams/clicks/tables"


@pytest.mark.parametrize(
    "uri",
    [
        "hdfs://namenode:8020/lake", "hdfs://nameservice/lake", "hdfs:///lake", "hdfs://me@namenode:8020/lake",
        "s3://bucket/lake", "gs://bucket/lake", "abfss://container@account.dfs.core.windows.net/lake",
    ],
)  # fmt: skip
def test_spark_is_given_the_uri_that_people_gave(uri: str) -> None:
    root = known(data_root(uri, HOME))
    assert not is_local(root)
    home = StreamHome.of(HOME, "clicks", root)
    assert uri_of(home.checkpoint("a")) == f"{uri}/streams/clicks/lineages/a/checkpoint"
    assert home.lineage("a").records == HOME / "streams/clicks/control/lineages/a"
    assert home.table_locations(None)["sessions"] == f"{uri}/streams/clicks/tables/sessions"
    assert data_root(f"{uri}/", HOME) == root


def test_a_path_is_given_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given in ("lake", f"file://{tmp_path}/lake", f"file://localhost{tmp_path}/lake", f"{tmp_path}/lake"):
        root = data_root(given, HOME)
        assert root == tmp_path / "lake"
        assert type(root) is type(Path())
        assert uri_of(root) == str(tmp_path / "lake")


def test_a_table_elsewhere_is_shown_with_its_queries_and_not_looked_at() -> None:
    place = table_place("sessions", "hdfs://namenode:8020/lake/sessions")
    assert (place.version, place.may_be_there) == (None, True)
    assert "delta.`hdfs://namenode:8020/lake/sessions`" in place.spark_sql


@pytest.mark.parametrize(
    "given",
    [
        "s3://key:hidden@bucket/lake", "nothing://there/lake", "abfss://container/x", "abfss://c@account.blob.x/y",
        "s3://", "s3:///lake", "gs:///lake", "hdfs://", "hdfs://[namenode/lake", "file://", "file://shared/lake",
    ],
)  # fmt: skip
def test_what_is_no_data_root_is_refused_by_name(given: str, reviewed: Reviewed) -> None:
    with pytest.raises(InvalidSpec) as caught:
        data_root(given, HOME)
    reviewed(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("given", ["hdfs://namenode:8020/home", "s3a://bucket/home", "file:/home"])
def test_a_home_at_a_uri_is_refused_by_name(given: str, monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed) -> None:
    monkeypatch.setenv("SESSIONIZER_HOME", given)
    with pytest.raises(InvalidSpec) as raised:
        platform_home()
    reviewed(raised.value)
    with pytest.raises(InvalidSpec, match=r"^--home is "):
        home_at(str(Path(given)), "--home")  # as the command line has it


@pytest.mark.parametrize("name", ["a[b", "a]b", "{a}", "a*", "wh?t", "a\\b", "a`b"])
def test_a_folder_that_spark_takes_for_a_pattern_is_refused(name: str, tmp_path: Path) -> None:
    for resolve in (home_at, partial(data_root, home=tmp_path)):
        with pytest.raises(InvalidSpec) as refused:
            resolve(str(tmp_path / name), field="--home")
        assert (refused.value.field, refused.value.value) == ("--home", str(tmp_path / name))
    assert home_at(str(tmp_path / "a, b (c) é")) == tmp_path / "a, b (c) é"


def test_a_file_is_whole_when_it_has_its_name_and_a_second_time_changes_nothing(folder: DataPath) -> None:
    for _ in range(2):
        publish_json(folder / "a.json", {"floor_ms": 7})
        assert json.loads(opened(folder / "a.json").read_text()) == {"floor_ms": 7}
    assert list_names(folder) == ["a.json"]


def test_what_is_not_there_has_no_names(folder: DataPath) -> None:
    assert list_names(folder / "none") == []


def test_a_folder_goes_with_all_that_is_in_it(folder: DataPath) -> None:
    opened(folder / "a" / "b").mkdir(parents=True)
    opened(folder / "a" / "b" / "c").write_bytes(b"0")
    remove_tree(folder / "a")
    assert list_names(folder) == []


def test_a_folder_is_proven_writable_and_left_empty(folder: DataPath) -> None:
    for _ in range(2):
        make_writable(folder / "new", "the stream's tables directory")
        assert list_names(folder / "new") == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, reviewed: Reviewed) -> None:
    (tmp_path / "in the way").touch()
    with pytest.raises(UnwritablePath) as raised:
        make_writable(tmp_path / "in the way", "the stream's tables directory")
    reviewed(raised.value)


def test_a_scheme_that_no_package_here_reads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"].__dict__["_registry"], "gs", raising=False)
    with pytest.raises(InvalidSpec, match=r"SESSIONIZER_DATA is 'gs://bucket/lake'\. .*install gcsfs"):
        make_writable(UPath("gs://bucket/lake"), "x")


def test_a_store_without_credentials_is_told_by_what_its_package_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    with pytest.raises(UnwritablePath, match=r"s3://bucket/lake.*NoCredentialsError"):
        make_writable(UPath("s3://bucket/lake"), "x")


def test_a_store_that_does_not_answer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in {
        "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(variable, value)
    # with an option of its own: fsspec keeps the client that lacks credentials
    with pytest.raises(StoreUnreachable, match=r"s3://away/lake .*: EndpointConnectionError: "):
        make_writable(UPath("s3://away/lake", use_ssl=False), "x")


def test_all_who_come_at_once_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: home_id(tmp_path), range(16)))
    assert found == {home_id(tmp_path)}
    assert owner_name("clicks", tmp_path) == f"clicks@{found.pop()}"


def test_it_goes_with_the_home_and_is_no_other_homes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    before = home_id(tmp_path / "a")
    assert before != home_id(tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "c")
    assert home_id(tmp_path / "c") == before


def test_a_damaged_one_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "home.json").write_text("{")
    with pytest.raises(DamagedFile):
        home_id(tmp_path)


ALWAYS = {
    "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    "fs.s3a.optimized.copy.from.local.enabled": "false",
    "fs.gs.auth.type": "APPLICATION_DEFAULT",
}
SECRET = "of-tests"  # noqa: S105  it is none
CLIENT = {
    "AZURE_STORAGE_TENANT_ID": "tenant",
    "AZURE_STORAGE_CLIENT_ID": "client",
    "AZURE_STORAGE_CLIENT_SECRET": SECRET,
}


@pytest.mark.parametrize(
    ("environment", "further"),
    [
        ({}, {}),
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:5000", "AWS_DEFAULT_REGION": "eu-west-1"},
            {
                "fs.s3a.endpoint": "http://127.0.0.1:5000",
                "fs.s3a.path.style.access": "true",
                "fs.s3a.endpoint.region": "eu-west-1",
            },
        ),
        (
            {"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3", "AWS_ACCESS_KEY_ID": SECRET},
            {"fs.s3a.endpoint": "http://s3", "fs.s3a.path.style.access": "true"},
        ),
        ({"GOOGLE_CLOUD_PROJECT": "shop"}, {"fs.gs.project.id": "shop"}),
        (
            {"AZURE_STORAGE_ACCOUNT_KEY": SECRET},
            {"fs.azure.account.key": "${env.AZURE_STORAGE_ACCOUNT_KEY}"},
        ),
        (
            CLIENT,
            {
                "fs.azure.account.auth.type": "OAuth",
                "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
                "fs.azure.account.oauth2.client.endpoint": (
                    "https://login.microsoftonline.com/${env.AZURE_STORAGE_TENANT_ID}/oauth2/token"
                ),
                "fs.azure.account.oauth2.client.id": "${env.AZURE_STORAGE_CLIENT_ID}",
                "fs.azure.account.oauth2.client.secret": "${env.AZURE_STORAGE_CLIENT_SECRET}",
            },
        ),
        ({"AZURE_STORAGE_CLIENT_ID": "client"}, {}),
    ],
    ids=["nothing", "an S3 server", "an S3 server beside others", "a project", "a key", "an application", "half of it"],
)
def test_exact_settings(environment: dict[str, str], further: dict[str, str]) -> None:
    found = hadoop_settings(environment)
    assert found == ALWAYS | further
    assert SECRET not in found.values()


@pytest.mark.parametrize(
    ("uri", "store"),
    [
        ("s3://bucket/lake", ObjectStore.S3),
        ("s3a://bucket/lake", ObjectStore.S3),
        ("gs://bucket/lake", ObjectStore.GCS),
        ("abfss://container@account.dfs.core.windows.net/lake", ObjectStore.AZURE),
        ("hdfs://namenode:8020/lake", None),
        ("/lake", None),
        (None, None),
    ],
)
def test_the_store_of_a_uri(uri: str | None, store: ObjectStore | None) -> None:
    assert object_store(uri) is store


@pytest.mark.parametrize("store", ObjectStore)
def test_each_store_has_jars_that_other_drivers_are_spared(store: ObjectStore) -> None:
    own = set(jar_names([store])) - set(jar_names())
    assert any(name.startswith("hadoop-") for name in own)
    assert set(jar_names()) < set(jar_names([store]))
