"""Control in a root of its own: what is one, what a store does with records, and what it must be able to do."""

import socket
import sys
from pathlib import Path

import pytest
from upath import UPath

from sessionizer.control.lease import UNREACHABLE_LIMIT_S
from sessionizer.control.timeouts import TAKEOVER_AFTER_MS
from sessionizer.errors import ControlUnreachable, InvalidSpec
from sessionizer.home.control_store import ANSWERS_WITHIN_S
from sessionizer.home.data_files import make_writable_control
from sessionizer.home.record_file import examine_json, write_json
from sessionizer.home.roots import CONTROL_VARIABLE, ControlPath, control_root, uri_of
from sessionizer.home.stream_home import StreamHome, stream_homes
from sessionizer.lineage.active import active_lineage, start_lineage
from support.fixtures.reviewed import Reviewed


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
