"""The board and the rules in docker/: by Grafana's own schema, and over metrics that exist."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from sessionizer_airflow.metrics import COUNTERS, OF_HEARTBEAT
from support.places import REPOSITORY
from support.stores.metrics_collector import board_queries

BOARD = REPOSITORY / "docker" / "grafana" / "streams.json"
RULES = REPOSITORY / "docker" / "prometheus" / "rules.yaml"
OF_AIRFLOW = {
    f"airflow_sessionizer_{name}"
    for name in ("health", "health_timestamp_seconds", *OF_HEARTBEAT, *(f"{each}_total" for each in COUNTERS))
}
OF_SPARK = {"spark_streaming_latency", "spark_driver_JVMHeapMemory"}
"""What tests/e2e/test_metrics_and_lineage.py sees a driver show."""


def lost(given: Any, kept: Any, place: str = "") -> list[str]:
    """Find the fields that were dropped, by their places."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [name for key, value in given.items() for name in lost(value, kept.get(key), f"{place}.{key}")]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        return [name for index, each in enumerate(given) for name in lost(each, kept[index], f"{place}[{index}]")]
    return [] if given == kept else [place]


def test_grafana_knows_every_field_of_the_board() -> None:
    register_default_plugins()
    board = json.loads(BOARD.read_text())
    assert lost(board, json.loads(JSONEncoder().encode(Dashboard.from_json(board)))) == []
    board["panels"][0]["titel"] = "a field that it does not know"
    assert lost(board, json.loads(JSONEncoder().encode(Dashboard.from_json(board)))) == [".panels[0].titel"]


def test_every_query_is_over_metrics_that_exist() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule["expr"] for group in groups for rule in group["rules"]]
    queries = board_queries(json.loads(BOARD.read_text()))
    assert len(queries) == 14
    named = {name for query in (*rules, *queries) for name in re.findall(r"\b(?:airflow|spark)_\w+", query)}
    assert named <= OF_AIRFLOW | OF_SPARK
    assert named >= OF_SPARK


def test_every_alert_says_what_to_do() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert {rule["alert"] for rule in alerts} == {"StreamUnwatched", "StreamDown", "StreamDegraded", "StreamLagging"}
    assert all(set(rule["annotations"]) == {"summary", "what_to_do"} for rule in alerts)
