"""OpenLineage's events of drivers and commands, at a server on this machine."""

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from sessionizer.control.history.files import Mark, MarkKind, add_mark
from sessionizer.control.openlineage import reporter
from sessionizer.control.openlineage.reporter import (
    Dataset,
    RunReporter,
    command_run,
    dataset_at,
    driver_run,
    is_openlineage_on,
    source_datasets,
)
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.home.stream_home import StreamHome
from sessionizer.stream_spec.document.source import Source
from sessionizer.stream_spec.document.stream import StreamSpec
from support.stores.metrics_collector import LineageServer, lineage_server
from support.streams.stage import clicks_spec

LINEAGE = "20261121T105501-3fa9c2"
BEAT = Heartbeat(uid="0123ab", at=1_790_000_000_000, started_at=1_789_999_000_000, phase=Phase.RUNNING)
AIRFLOWS_TASK = "airflow/clicks.supervise/0199a5c1-23fd-7d1e-8a54-2f1fe6b7f0aa"


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of this machine's user. Before each test, also those that the client leaves in the environment."""
    for name in (*reporter.SETTINGS, "OPENLINEAGE_PARENT_ID", "OPENLINEAGE__TRANSPORT__TRANSPORTS__DEFAULT_HTTP__URL",
                 "OPENLINEAGE__TRANSPORT__TRANSPORTS__DEFAULT_HTTP__TYPE"):  # fmt: skip
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LineageServer]:
    with lineage_server() as found:
        monkeypatch.setenv("OPENLINEAGE_URL", found.url)
        monkeypatch.setattr(reporter, "LAST_EVENT_S", 60.0)
        yield found


def spec(**more: Any) -> StreamSpec:
    return StreamSpec.model_validate({"name": "clicks", **clicks_spec(), **more})


def test_a_driver_is_a_streaming_run_with_its_datasets(server: LineageServer, home: StreamHome) -> None:
    told: list[str] = []
    with RunReporter(lambda: driver_run(home, spec(), BEAT), told.append) as report:
        report.note_progress(LINEAGE)
        report.note_progress(LINEAGE)
    assert (server.states("streams.clicks"), told) == (["START", "RUNNING", "COMPLETE"], [])
    running = server.events[1]
    assert running["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert running["inputs"] == [
        {"namespace": "file", "name": str(home.platform / "feed"), "facets": {}, "inputFacets": {}}
    ]
    assert [each["name"] for each in running["outputs"]] == [
        str(home.table(name)) for name in ("sessions", "quarantine", "late_events")
    ]
    assert {"key": "lineage", "value": LINEAGE, "source": "streaming-state"} in running["run"]["facets"]["tags"]["tags"]
    assert len({event["run"]["runId"] for event in server.events}) == 1
    assert server.complaints() == []


def test_a_failed_command_is_a_run_whose_parent_is_the_driver(server: LineageServer, home: StreamHome) -> None:
    home.prepare()
    add_mark(home, Mark(kind=MarkKind.START, uid=BEAT.uid))
    with RunReporter(lambda: driver_run(home, spec(), BEAT), print):
        pass
    HEARTBEAT_FILE.of(home).write(replace(BEAT, uid="restore-one", started_at=BEAT.at))  # the command's own
    driver = server.last("streams.clicks")["run"]["runId"]
    with (
        pytest.raises(ValueError, match="no such batch"),
        RunReporter(lambda: command_run(home, "restore", "20261121T120000-aaaaaa", BEAT.at, LINEAGE), print),
    ):
        raise ValueError("no such batch, password=hunter2")
    assert server.states("streams.clicks.restore") == ["START", "FAIL"]
    facets = server.last("streams.clicks.restore")["run"]["facets"]
    assert facets["parent"]["run"]["runId"] == driver
    assert facets["parent"]["job"]["name"] == "streams.clicks"
    assert "no such batch" in facets["errorMessage"]["message"]
    assert "hunter2" not in facets["errorMessage"]["message"]
    assert server.complaints() == []


def test_a_try_after_a_kill_is_the_same_run(server: LineageServer, home: StreamHome) -> None:
    for _ in range(2):
        with RunReporter(lambda: command_run(home, "rescale", "a", BEAT.at), print):
            pass
    assert len({event["run"]["runId"] for event in server.events}) == 1
    assert "parent" not in server.events[0]["run"]["facets"], "no driver was ever here"


def test_the_environment_names_the_parent(
    server: LineageServer, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    HEARTBEAT_FILE.of(home).write(BEAT)
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", AIRFLOWS_TASK)
    with RunReporter(lambda: command_run(home, "restore", "a", BEAT.at), print):
        pass
    parent = server.events[0]["run"]["facets"]["parent"]
    assert "/".join((parent["job"]["namespace"], parent["job"]["name"], parent["run"]["runId"])) == AIRFLOWS_TASK


def test_a_run_is_reported_every_five_minutes_whatever_the_clock_does(
    server: LineageServer, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [BEAT.at]
    monkeypatch.setattr(reporter, "epoch_ms", lambda: now[0])
    with RunReporter(lambda: driver_run(home, spec(), BEAT), print) as report:
        for step_ms in (0, 1, reporter.RUNNING_EVERY_MS, -3_600_000):
            now[0] += step_ms
            report.note_progress(LINEAGE)
    assert server.states("streams.clicks").count("RUNNING") == 3


@pytest.mark.parametrize("named", ["", "x", "a/b", "a/b/c", "/b/0199a5c1-23fd-7d1e-8a54-2f1fe6b7f0aa"])
def test_a_malformed_parent_is_none(named: str, home: StreamHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", named)
    assert command_run(home, "restore", "a", 1).parent is None


def test_nothing_is_made_unless_it_is_configured(home: StreamHome) -> None:
    made: list[bool] = []
    with RunReporter(lambda: made.append(True) or command_run(home, "restore", "a", 1), print) as report:  # type: ignore[func-returns-value]
        report.note_progress(None)
    assert made == []


def test_it_is_configured_by_a_variable_or_a_file(tmp_path: Path) -> None:
    assert not is_openlineage_on({"OPENLINEAGE_NAMESPACE": "here"})
    assert is_openlineage_on({"OPENLINEAGE_URL": "http://marquez:5000"})
    assert is_openlineage_on({"OPENLINEAGE__TRANSPORT__TYPE": "file"})
    assert not is_openlineage_on({"OPENLINEAGE_URL": "http://marquez:5000", "OPENLINEAGE_DISABLED": "true"})
    (tmp_path / "openlineage.yml").write_text("transport: {type: console}")
    assert is_openlineage_on({})


def test_a_server_that_is_not_there_harms_nothing(home: StreamHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "LAST_EVENT_S", 0.1)
    told: list[str] = []
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        place = {"type": "http", "url": f"http://127.0.0.1:{deaf.getsockname()[1]}", "retry": {"total": 2}}
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(place))
        with RunReporter(lambda: command_run(home, "restore", "a", 1), told.append):
            result = 7
        for thread in threading.enumerate():
            if thread.name == "openlineage":
                thread.join()  # or it sends to the server of the next test
    assert result == 7
    assert told, "but it is told"


def test_a_run_that_cannot_be_described_harms_nothing(server: LineageServer) -> None:
    told: list[str] = []

    def make() -> Any:
        raise OSError("token=abcdef0123456789")

    with RunReporter(make, told.append) as report:
        report.note_progress(LINEAGE)
    assert (len(told), server.events) == (1, [])
    assert "abcdef0123456789" not in told[0]


def test_too_many_events_drop_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter._Outbox, "_send_all", lambda _: None)
    outbox = reporter._Outbox(print)
    for number in range(reporter.MOST_WAITING + 2):
        outbox.put((None, "RUNNING", number, ""))  # type: ignore[arg-type]
    assert outbox._queue.get_nowait() == (None, "RUNNING", 2, "")


@pytest.mark.parametrize(
    ("place", "namespace", "name"),
    [
        ("/srv/tables/sessions", "file", "/srv/tables/sessions"),
        ("file:/srv/tables", "file", "/srv/tables"),
        ("s3://lake/web/sessions", "s3://lake", "web/sessions"),
        ("s3://key:secret@lake/web/sessions?token=x", "s3://lake", "web/sessions"),
        ("hdfs://alice@namenode:8020/web", "hdfs://namenode:8020", "/web"),
        ("abfss://lake:x@site.dfs.core.windows.net/web", "abfss://lake@site.dfs.core.windows.net", "web"),
        ("gs://lake", "gs://lake", "/"),
    ],
)
def test_the_name_of_a_place(place: str, namespace: str, name: str) -> None:
    assert dataset_at(place) == Dataset(namespace, name)


@pytest.mark.parametrize(
    ("source", "datasets"),
    [
        (
            {"format": "kafka", "bootstrap_servers": "one:9092,two:9092", "topic": "eu,us", "encoding": "text"},
            (Dataset("kafka://one:9092", "eu"), Dataset("kafka://one:9092", "us")),
        ),
        ({"format": "delta", "path": "s3://lake/events"}, (Dataset("s3://lake", "events"),)),
        ({"format": "socket", "host": "localhost", "port": 9}, ()),
    ],
)
def test_the_datasets_of_a_source(source: dict[str, Any], datasets: tuple[Dataset, ...], home: StreamHome) -> None:
    assert source_datasets(TypeAdapter[Any](Source).validate_python(source), home) == datasets
