"""A real Airflow for the whole module, its drivers started through spark-submit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sessionizer.control.clock import epoch_ms
from sessionizer.control.heartbeat import read_heartbeat
from sessionizer.control.observation import Observation
from sessionizer.control.status import read_observation
from sessionizer.control.stream_home import StreamHome

from sessionizer_airflow.local_airflow.api import Api, wait_until
from sessionizer_airflow.local_airflow.installation import Installation
from sessionizer_airflow.local_airflow.parts import Parts, end_processes, left_behind

SCRIPTED_DRIVER = Path(__file__).parents[2] / "unit" / "airflow" / "scripted_driver.py"
SPEC = """
name: clicks
description: clicks of a test
owner: tests
source: {format: files, path: feed, encoding: json, columns: "k string, t timestamp, i string"}
mapping: {key: k, event_time: t, event_id: i}
trigger_interval: 1 second
"""


@dataclass
class Platform:
    """What a test steers, and what it looks at."""

    installation: Installation
    parts: Parts
    api: Api

    @property
    def home(self) -> StreamHome:
        return StreamHome.of(self.installation.platform_home, "clicks")

    def look(self) -> Observation:
        return read_observation(self.home, epoch_ms())

    def working_uid(self) -> str | None:
        """The driver that has committed a batch and lives."""
        seen = self.look()
        beat = read_heartbeat(self.home)
        has_batch = beat is not None and beat.uid == seen.uid and beat.batch_id is not None
        return seen.uid if seen.state.is_live and has_batch and seen.alive else None

    def wait_for_driver(self, *, other_than: str | None = None, seconds: float = 60.0) -> str:
        wait_until(lambda: self.working_uid() not in {None, other_than}, seconds, f"a driver other than {other_than}")
        uid = self.working_uid()
        assert uid is not None
        return uid

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        found = self.api.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?order_by=-run_after&limit=100")
        runs: list[dict[str, Any]] = found["dag_runs"]
        return runs

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")
        return found

    def run_now(self, dag_id: str) -> str:
        self.api.unpause(dag_id)
        started = self.api.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None})
        return str(started["dag_run_id"])


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    root = tmp_path_factory.mktemp("platform")
    specs = root / "specs"
    specs.mkdir()
    (specs / "clicks.yaml").write_text(SPEC)
    installation = Installation(
        root=root,
        settings={
            "SESSIONIZER_APPLICATION": str(SCRIPTED_DRIVER),
            "SESSIONIZER_STREAMS": str(specs),
            "SESSIONIZER_WATCH_LEASE": "25 seconds",
            "SESSIONIZER_LANDING_INTERVAL": "5 seconds",
            "SESSIONIZER_STALE_LIMIT": "10 seconds",
            "SESSIONIZER_FIRST_BACKOFF": "2 seconds",
        },
    )
    parts, api = Parts(installation), Api(installation)
    try:
        parts.start_all()
        wait_until(api.is_healthy, 120, "a healthy Airflow")
        wait_until(lambda: "clicks.supervise" in api.dag_ids(), 60, "the DAGs")
        yield Platform(installation, parts, api)
    finally:
        parts.stop_all()
        end_processes(left_behind(installation), seconds=0.0)
