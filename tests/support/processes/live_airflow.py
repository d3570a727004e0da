"""A test's hold on a running Airflow and one stream that it supervises."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.status.driver_status import DriverStatus, read_driver
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_demo.local_airflow.api import AirflowUnavailable, Api, wait_until
from sessionizer_demo.local_airflow.installation import Installation
from sessionizer_demo.local_airflow.parts import Parts

TASK = "supervise"


@dataclass
class Platform:
    """What a test steers, and what it looks at."""

    installation: Installation
    parts: Parts
    api: Api
    stream: str = "clicks"

    def of(self, stream: str) -> Platform:
        """The same Airflow, with another stream in mind."""
        return replace(self, stream=stream)

    @property
    def home(self) -> StreamHome:
        return StreamHome.of(self.installation.platform_home, self.stream)

    @property
    def dag(self) -> str:
        return f"{self.stream}.supervise"

    @property
    def told(self) -> Path:
        return self.installation.root / "told.jsonl"

    def password_of(self, user: str) -> str:
        """Airflow made it up for each user in the settings."""
        passwords = json.loads((self.installation.root / "airflow" / "passwords.json").read_text())
        return str(passwords[user])

    def token_of(self, user: str) -> str:
        credentials = {"username": user, "password": self.password_of(user)}
        return str(self.api.call("POST", "/auth/token", credentials, authorized=False)["access_token"])

    def look(self) -> DriverStatus:
        return read_driver(self.home, epoch_ms())

    def behave(self, how: str) -> None:
        (self.installation.platform_home / "behaviour").write_text(how)

    def working_uid(self) -> str | None:
        """The driver that has committed a batch and lives."""
        seen = self.look()
        beat = HEARTBEAT_FILE.of(self.home).read()
        has_batch = beat is not None and beat.uid == seen.uid and beat.batch_id is not None
        # of one on another host nobody here can tell
        return seen.uid if seen.state.is_live and has_batch and seen.alive is not False else None

    def wait_for_driver(self, *, other_than: str | None = None, seconds: float = 60.0) -> str:
        wait_until(lambda: self.working_uid() not in {None, other_than}, seconds, f"a driver other than {other_than}")
        uid = self.working_uid()
        assert uid is not None
        return uid

    def wait_for_launch(self, *, other_than: str | None, seconds: float) -> str:
        wait_until(lambda: self.look().uid not in {None, other_than}, seconds, f"a launch other than {other_than}")
        return self.look().uid or ""

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        found = self.api.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?order_by=-run_after&limit=100")
        runs: list[dict[str, Any]] = found["dag_runs"]
        return runs

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")
        return found

    def run_now(self, dag_id: str, **conf: object) -> str:
        self.api.unpause(dag_id)
        started = self.api.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        return str(started["dag_run_id"])

    def wait_for_end(self, dag_id: str, run: str, seconds: float = 90.0) -> str:
        def state() -> str:
            return next(str(found["state"]) for found in self.runs(dag_id) if found["dag_run_id"] == run)

        wait_until(lambda: state() in {"success", "failed"}, seconds, f"the end of a run of {dag_id}")
        return state()

    def watch(self) -> str:
        runs = self.runs(self.dag)
        return str(runs[0]["dag_run_id"]) if runs else ""

    def state_of_watch(self) -> str | None:
        run = self.watch()
        return self.task(self.dag, run, TASK)["state"] if run else None

    def is_watched(self) -> bool:
        return self.state_of_watch() == "deferred"

    def wait_for_watch(self, *, other_than: str | None = None, seconds: float = 60.0) -> None:
        """Also while the API is away: that is one more thing to wait for."""
        wait_until(
            tolerant(lambda: self.is_watched() and self.watch() != other_than), seconds, f"a watch after {other_than}"
        )

    def is_paused(self) -> bool:
        return bool(self.api.call("GET", f"/api/v2/dags/{self.dag}")["is_paused"])

    def mark_failed(self) -> None:
        run = self._run_under_way()
        path = f"/api/v2/dags/{self.dag}/dagRuns/{run}/taskInstances/{TASK}"
        self.api.call("PATCH", path, {"new_state": "failed"})

    def clear(self) -> None:
        cleared = {"dry_run": False, "task_ids": [TASK], "only_failed": False, "reset_dag_runs": True}
        run = self._run_under_way()
        self.api.call("POST", f"/api/v2/dags/{self.dag}/clearTaskInstances", {**cleared, "dag_run_id": run})

    def _run_under_way(self) -> str:
        """A person acts on a task that is at work, not on one between two watches."""
        wait_until(lambda: self.state_of_watch() in {"deferred", "running"}, 60, "a task at work")
        return self.watch()

    def log_of(self, run: str, try_number: int = 1, *, at: Collection[str] = ()) -> list[str]:
        """The lines that the UI shows of the task's log, with the level filter set to `at`."""
        path = f"/api/v2/dags/{self.dag}/dagRuns/{run}/taskInstances/{TASK}/logs/{try_number}?full_content=true"
        found = self.api.call("GET", path)["content"]
        return [" ".join(str(line["event"]).split()) for line in found if not at or line.get("level") in at]


def tolerant(condition: Callable[[], bool]) -> Callable[[], bool]:
    def holds() -> bool:
        try:
            return condition()
        except AirflowUnavailable:
            return False

    return holds
