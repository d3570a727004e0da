"""A driver as Airflow launches it, seen by a Prometheus and by a lineage server: its board, its rules, its runs."""

import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat
from sessionizer.control.records.process_records import EXIT_FILE, request_stop
from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.launching.local import kill
from sessionizer_airflow.launching.spark_submit import DriverCall
from sessionizer_airflow.project import Folders, Project
from support.places import REPOSITORY, known
from support.processes.driver_process import TypedCommand
from support.processes.ports import eventually, free_addresses
from support.stores.metrics_collector import (
    SENDER,
    LineageServer,
    airflow_over_otlp,
    board_queries,
    lineage_server,
    metrics_collector,
)
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

pytestmark = pytest.mark.long
PROMETHEUS = REPOSITORY / ".tools" / "prometheus"
DOCKER = REPOSITORY / "docker"
OF_KAFKA = "airflow_sessionizer_source_lag_events"
"""The one metric of the board that a stream of files does not have."""
RULES_TEST = """
rule_files: [RULES]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'airflow_sessionizer_health{stream="clicks"}', values: '0x10 4x20'}
      - {series: 'airflow_sessionizer_health{stream="orders"}', values: '3x40'}
      - {series: 'airflow_sessionizer_health_timestamp_seconds{stream="clicks"}', values: '0+60x10 600x20'}
      - {series: 'airflow_sessionizer_heartbeat_timestamp_seconds{stream="clicks",lineage="left"}', values: '0x40'}
      - {series: 'airflow_sessionizer_heartbeat_timestamp_seconds{stream="clicks",lineage="now"}', values: '1+60x40'}
      - {series: 'airflow_sessionizer_watermark_lag_seconds{stream="clicks",lineage="left"}', values: '9000x40'}
      - {series: 'airflow_sessionizer_watermark_lag_seconds{stream="clicks",lineage="now"}', values: '1x10 1200x30'}
    promql_expr_test:
      - {expr: sessionizer:lineage:current, eval_time: 5m, exp_samples: [
          {labels: 'sessionizer:lineage:current{stream="clicks",lineage="now"}', value: 301}]}
    alert_rule_test:
      - {alertname: StreamDown, eval_time: 10m, exp_alerts: []}
      - {alertname: StreamDegraded, eval_time: 9m, exp_alerts: []}
      - {alertname: StreamUnwatched, eval_time: 14m, exp_alerts: []}
      - {alertname: StreamLagging, eval_time: 15m, exp_alerts: []}
"""


@dataclass(frozen=True, slots=True)
class Prometheus:
    address: str

    def ask(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{query}", timeout=20) as answer:
            return json.load(answer)["data"]

    def series(self, query: str) -> list[dict[str, str]]:
        """The labels of what a query of the board comes to."""
        query = query.replace("$stream", "clicks").replace("$__rate_interval", "1m")
        return [each["metric"] for each in self.ask("query", query=query)["result"]]


@contextmanager
def prometheus(folder: Path, driver: str, collector: str) -> Iterator[Prometheus]:
    """Run Prometheus by the files in docker/, over these two servers. It looks each second."""
    configuration = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yaml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["scrape_configs"][0]["static_configs"] = [{"targets": [driver]}]
    configuration["scrape_configs"] += [{"job_name": "airflow", "static_configs": [{"targets": [collector]}]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    (folder / "rules.yaml").write_text((DOCKER / "prometheus" / "rules.yaml").read_text())
    (address,) = free_addresses(1)
    argv = [str(PROMETHEUS / "prometheus"), f"--config.file={folder / 'prometheus.yaml'}"]
    argv += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(argv, stderr=log) as running:
        try:
            yield Prometheus(address)
        finally:
            running.terminate()


@dataclass(frozen=True, slots=True)
class Watched:
    """A stream with a live driver, what the lineage server has got of it, and its first heartbeat with a batch."""

    stage: Stage
    lineage: LineageServer
    beat: Heartbeat


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with pytest.MonkeyPatch.context() as patch, lineage_server() as server:
        patch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("OPENLINEAGE_URL", server.url)
        patch.setenv("OPENLINEAGE_NAMESPACE", "web")
        patch.setenv("SESSIONIZER_DRIVER_ENVIRONMENT", "OPENLINEAGE_*")
        stage = Stage.set_up(tmp_path_factory.mktemp("watched"), clicks_spec(files_per_batch=4))
        write_click_files(stage.feed, 4)
        stage.stream_home.prepare()
        places = {"SESSIONIZER_STREAMS": str(stage.streams), "SESSIONIZER_HOME": str(stage.home)}
        call = DriverCall(stream="clicks", uid="0123ab", folders=Folders(home=stage.home, streams=stage.streams))
        project = Project.from_environment(places)
        launch = ConnectionLauncher(project=project).launch(stage.stream_home, call)
        try:
            beats = HEARTBEAT_FILE.of(stage.stream_home)
            eventually(lambda: (beat := beats.read()) is not None and beat.watermark_lag_ms is not None, 600)
            yield Watched(stage, server, known(beats.read()))
        finally:
            kill(known(launch.process))


def test_the_rules_are_loaded_and_do_as_they_say(tmp_path: Path) -> None:
    promtool, rules = str(PROMETHEUS / "promtool"), DOCKER / "prometheus" / "rules.yaml"
    for argv in (["check", "config", str(DOCKER / "prometheus" / "prometheus.yaml")], ["check", "rules", str(rules)]):
        checked = subprocess.run([promtool, *argv], check=False, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    test = yaml.safe_load(RULES_TEST)
    test["rule_files"] = [str(rules)]
    annotations = {
        rule["alert"]: rule
        for group in yaml.safe_load(rules.read_text())["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    assert set(annotations) == {each["alertname"] for each in test["tests"][0]["alert_rule_test"]}
    fired = [("StreamDown", "clicks", "14m"), ("StreamDegraded", "orders", "12m"), ("StreamUnwatched", "clicks", "20m")]
    for alert, stream, at in fired:
        test["tests"][0]["promql_expr_test"] += [
            {
                "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing", stream="{stream}"}})',
                "eval_time": at,
                "exp_samples": [{"labels": "{}", "value": 1}],
            }
        ]
    lagging = 'ALERTS{alertname="StreamLagging", alertstate="firing"}'
    labels = 'ALERTS{alertname="StreamLagging",alertstate="firing",lineage="now",severity="warning",stream="clicks"}'
    test["tests"][0]["promql_expr_test"] += [
        {"expr": lagging, "eval_time": "25m", "exp_samples": [{"labels": labels, "value": 1}]}
    ]
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    tested = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "test.yaml")], check=False, capture_output=True, text=True
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_each_query_of_the_board_has_an_answer(watched: Watched, tmp_path: Path) -> None:
    driver = urllib.parse.urlsplit(known(watched.beat.spark_ui)).netloc
    queries = board_queries(json.loads((DOCKER / "grafana" / "streams.json").read_text()))
    expected = {query for query in queries if OF_KAFKA not in query}
    with metrics_collector() as (collector, _):
        subprocess.run(
            [sys.executable, "-c", SENDER],
            env=os.environ | airflow_over_otlp(collector),
            input=json.dumps(watched.beat.to_json()),
            check=True,
            text=True,
        )
        with prometheus(tmp_path, driver, urllib.parse.urlsplit(collector).netloc) as running:
            answered: dict[str, list[dict[str, str]]] = {}

            def all_answered() -> bool:
                try:
                    answered.update({query: running.series(query) for query in queries})
                except OSError:  # it is starting
                    return False
                return all(answered[query] for query in expected)

            with suppress(AssertionError):  # told below, by the names of the queries
                eventually(all_answered, 120)
            assert sorted(query for query in expected if not answered.get(query)) == []
            (latency,) = running.series("spark_streaming_latency")
            groups = running.ask("rules")["groups"]
    assert {query for query, series in answered.items() if series} == expected
    assert latency["stream"] == "clicks"
    assert latency["lineage"] == watched.stage.lineage, "as Airflow's metrics have it"
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}


def test_the_driver_and_its_commands_are_runs(watched: Watched) -> None:
    stage, server = watched.stage, watched.lineage
    eventually(lambda: "RUNNING" in server.states("streams.clicks"), 600)
    saved = TypedCommand.start(stage, ("savepoint", "create"), "--id", "one", "--native", "--hurry")
    assert saved.end() == 0, saved.said
    request_stop(stage.stream_home, "0123ab", "test")
    eventually(lambda: EXIT_FILE.of(stage.stream_home, "0123ab").read(), 600)
    digest = TypedCommand.answer(stage, ("restore",), "one")["digest"]
    restored = TypedCommand.start(stage, ("restore",), "one", "--approve", digest)
    assert restored.end() == 0, restored.said
    eventually(lambda: server.states("streams.clicks.restore") == ["START", "COMPLETE"], 20)
    assert server.states("streams.clicks") == ["START", "RUNNING", "COMPLETE"]
    assert server.states("streams.clicks.savepoint") == ["START", "COMPLETE"]
    driver = server.last("streams.clicks")
    assert driver["job"]["namespace"] == "web"
    assert [each["name"] for each in driver["inputs"]] == [str(stage.feed)]
    assert str(stage.table("sessions")) in [each["name"] for each in driver["outputs"]]
    for command in ("savepoint", "restore"):
        parent = server.last(f"streams.clicks.{command}")["run"]["facets"]["parent"]
        assert parent["run"]["runId"] == driver["run"]["runId"]
    assert server.complaints() == []
