"""Savepoints from a running Airflow, of a stream that Spark really drives."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from sessionizer.home.clock import epoch_ms
from sessionizer.state.savepoints.listing import Savepoint, list_savepoints
from sessionizer_demo.local_airflow.api import wait_until
from support.places import REPOSITORY
from support.processes.live_airflow import Platform

pytestmark = pytest.mark.long

SETTINGS = {
    "SESSIONIZER_APPLICATION": str(REPOSITORY / "jobs" / "main.py"),
    "SESSIONIZER_STALE_LIMIT": "60 seconds",
    "SESSIONIZER_WATCH_LEASE": "2 minutes",
    "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
}
SPEC = """
name: {name}
description: {name} of a test
owner: tests
source: {{format: files, path: feed, encoding: json, columns: "k string, t timestamp, i string"}}
mapping: {{key: k, event_time: t, event_id: i}}
savepoints: {{every: 30 minutes}}
trigger_interval: 1 second
"""
SCHEDULED = "sessionizer.savepoints"


def feed(platform: Platform, first: int, count: int) -> None:
    """Events of now, one of each of `count` users."""
    folder = platform.installation.platform_home / "feed"
    folder.mkdir(exist_ok=True)
    at = datetime.now(UTC).isoformat()
    rows = [{"k": f"u{number}", "t": at, "i": f"e{number}"} for number in range(first, first + count)]
    hidden = folder / f".{first}.json"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(folder / f"{first}.json")


def complete(platform: Platform) -> list[Savepoint]:
    return [each for each in list_savepoints(platform.home.savepoints, epoch_ms()) if each.is_complete]


def run_to_its_end(platform: Platform, dag: str) -> tuple[str, str]:
    run = platform.run_now(dag)
    return run, platform.wait_for_end(dag, run, 240)


def tasks(platform: Platform, dag: str, run: str) -> list[dict[str, Any]]:
    found = platform.api.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances?limit=100")
    return list(found["task_instances"])


def test_a_stream_gets_its_savepoint_while_another_fails_to(platform: Platform) -> None:
    feed(platform, 0, 50)
    platform.api.unpause(platform.dag)
    platform.wait_for_driver(seconds=180)
    wait_until(lambda: platform.look().state.is_live, 30, "a driver at work")
    visits = platform.of("visits").home
    visits.prepare()
    visits.lineage_record.write_text("{")
    run, state = run_to_its_end(platform, SCHEDULED)
    assert state == "failed", "nobody would notice"
    found = {
        task["rendered_map_index"]: task["state"] for task in tasks(platform, SCHEDULED, run) if task["map_index"] >= 0
    }
    assert found == {"clicks": "success", "visits": "failed"}
    (made,) = complete(platform)
    assert made.manifest is not None
    assert made.manifest.counts is not None
    assert made.manifest.counts.events == 50
    assert made.begun is not None
    assert made.begun.why == "scheduled, every 30 minutes"
    assert platform.working_uid(), "the stream was touched"


def test_the_task_that_failed_ends_with_what_to_do(platform: Platform) -> None:
    run = platform.runs(SCHEDULED)[0]["dag_run_id"]
    (failed,) = [task for task in tasks(platform, SCHEDULED, run) if task["state"] == "failed"]
    assert failed["try_number"] == 1, "a new try mends nothing"
    path = f"/api/v2/dags/{SCHEDULED}/dagRuns/{run}/taskInstances/create/logs/1?full_content=true"
    content = platform.api.call("GET", f"{path}&map_index={failed['map_index']}")["content"]
    said = [str(line["event"]) for line in content if line.get("level") == "error"]
    assert said[-1].startswith("What to do: "), said
    assert "lineage.json" in said[-2]


def test_what_was_just_saved_is_not_saved_again(platform: Platform) -> None:
    platform.of("visits").home.lineage_record.unlink()
    run, state = run_to_its_end(platform, SCHEDULED)
    assert state == "success"
    assert {task["task_id"]: task["state"] for task in tasks(platform, SCHEDULED, run)} == {
        "find_due": "success", "create": "skipped", "prune": "success",
    }  # fmt: skip
    assert len(complete(platform)) == 1
