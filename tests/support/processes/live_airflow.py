"""A test's hold on a running Airflow and one stream that it supervises."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.control.status.driver_status import DriverStatus, read_driver
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.state.savepoints.listing import Savepoint, list_savepoints
from sessionizer_demo.local_airflow.api import AirflowUnavailable, Api, wait_until
from sessionizer_demo.local_airflow.installation import Installation
from sessionizer_demo.local_airflow.parts import Parts, end_processes, left_behind
from support.places import MAIN, REPOSITORY, known
from support.processes.driver_process import run_to_end
from support.streams.stage import Stage

TASK = "supervise"
DRIVEN = {
    "SESSIONIZER_APPLICATION": MAIN,
    "SESSIONIZER_STALE_LIMIT": "60 seconds",
    "SESSIONIZER_WATCH_LEASE": "2 minutes",
    "SESSIONIZER_APPROVAL_PATIENCE": "20 minutes",
}
"""Settings of an Airflow whose drivers are Spark's."""
PLAIN_SPEC = """
name: {name}
description: {name} of a test
owner: tests
source: {{format: files, path: feed, encoding: json, columns: "k string, t timestamp, i string"}}
mapping: {{key: k, event_time: t, event_id: i}}
trigger_interval: 1 second
"""
OUR_DAGS = {"AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags")}


def template_of(spec: Mapping[str, Any]) -> str:
    """Return the text of a spec with a place for its ``name``, and its columns in the order of the spec's."""
    return yaml.safe_dump(spec, sort_keys=False).replace("{", "{{").replace("}", "}}") + "name: {name}\n"


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
        return str(json.loads((self.installation.root / "airflow" / "passwords.json").read_text())[user])

    def token_of(self, user: str) -> str:
        credentials = {"username": user, "password": self.password_of(user)}
        return str(self.api.call("POST", "/auth/token", credentials, authorized=False)["access_token"])

    def look(self) -> DriverStatus:
        return read_driver(self.home, epoch_ms())

    def health(self) -> dict[str, Any]:
        """The word on the stream, and its rule, on the page of the fleet."""
        rows = self.api.call("GET", "/streams-page/api/fleet")["streams"]
        return next(dict(row["health"]) for row in rows if row["stream"] == self.stream)

    def behave(self, how: str) -> None:
        (self.installation.platform_home / "behaviour").write_text(how)

    def working_uid(self) -> str | None:
        """The driver that has committed a batch and lives."""
        seen = self.look()
        beat = HEARTBEAT_FILE.of(self.home).read()
        has_batch = beat is not None and beat.uid == seen.uid and beat.batch_id is not None
        # of one on another host nobody here can tell
        return seen.uid if seen.state.is_live and has_batch and seen.alive is not False else None

    def wait_for_driver(self, *, other_than: str | None = None, seconds: float = 180.0) -> str:
        wait_until(lambda: self.working_uid() not in {None, other_than}, seconds, f"a driver other than {other_than}")
        return known(self.working_uid())

    def has_stopped(self, uid: str) -> bool:
        record = EXIT_FILE.of(self.home, uid).read()
        return record is not None and record.outcome is ExitOutcome.STOPPED

    def wait_until_stopped(self, uid: str, seconds: float = 120.0) -> None:
        wait_until(lambda: self.has_stopped(uid), seconds, f"driver {uid} to stop")

    def stop(self, seconds: float = 120.0) -> None:
        """Have the stream stop, by its DAG."""
        uid = self.wait_for_driver()
        self.run_now(f"{self.stream}.stop")
        self.wait_until_stopped(uid, seconds)

    def drain(self, stage: Stage) -> None:
        """Stop the stream and Airflow, and have a driver read all there is and close every session."""
        self.stop()
        self.parts.stop_all()
        write_desired(self.home, DesiredState.RUNNING, by="tests", why="to drain it without Airflow")
        run_to_end(stage, "drain")

    def bring(self, name: str, users: Iterable[str]) -> None:
        """Add a file with an event of now of each user."""
        folder, at = self.installation.platform_home / "feed", datetime.now(UTC).isoformat()
        folder.mkdir(exist_ok=True)
        rows = [{"k": user, "t": at, "i": f"{name}-{user}"} for user in users]
        (folder / f".{name}").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / f".{name}").rename(folder / f"{name}.json")

    def savepoints(self, why: str = "") -> list[Savepoint]:
        """The complete savepoints of the stream whose reason begins so, oldest first."""
        found = [each for each in list_savepoints(self.home.savepoints, epoch_ms()) if each.is_complete]
        return [each for each in found if known(each.begun).why.startswith(why)]

    def wait_for_launch(self, *, other_than: str | None, seconds: float) -> str:
        wait_until(lambda: self.look().uid not in {None, other_than}, seconds, f"a launch other than {other_than}")
        return known(self.look().uid)

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        found = self.api.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?order_by=-run_after&limit=100")
        runs: list[dict[str, Any]] = found["dag_runs"]
        return runs

    def run(self, dag_id: str, run_id: str, below: str = "") -> dict[str, Any]:
        found: dict[str, Any] = self.api.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}{below}")
        return found

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        return self.run(dag_id, run_id, f"/taskInstances/{task_id}")

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        return list(self.run(dag_id, run_id, "/taskInstances?limit=100")["task_instances"])

    def states(self, dag_id: str, run_id: str) -> dict[str, str]:
        return {task["task_id"]: task["state"] for task in self.tasks(dag_id, run_id)}

    def run_now(self, dag_id: str, **conf: object) -> str:
        self.api.unpause(dag_id)
        started = self.api.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        return str(started["dag_run_id"])

    def wait_for_end(self, dag_id: str, run: str, seconds: float = 240.0) -> str:
        def state() -> str:
            return str(self.run(dag_id, run)["state"])

        wait_until(tolerant(lambda: state() in {"success", "failed"}), seconds, f"the end of {run} of {dag_id}")
        return state()

    def watch(self) -> str:
        runs = self.runs(self.dag)
        return str(runs[0]["dag_run_id"]) if runs else ""

    def state_of_watch(self) -> str | None:
        run = self.watch()
        return self.task(self.dag, run, TASK)["state"] if run else None

    def is_watched(self) -> bool:
        return self.state_of_watch() == "deferred"

    def wait_for_watch(self, *, other_than: str | None = None, seconds: float = 180.0) -> None:
        """Also while the API is away: that is one more thing to wait for."""
        wait_until(
            tolerant(lambda: self.is_watched() and self.watch() != other_than), seconds, f"a watch after {other_than}"
        )

    def is_paused(self) -> bool:
        return bool(self.api.call("GET", f"/api/v2/dags/{self.dag}")["is_paused"])

    def wait_for_pause(self) -> None:
        wait_until(tolerant(self.is_paused), 240, "the DAG to pause itself")

    def mark_failed(self) -> None:
        run = self._run_under_way()
        path = f"/api/v2/dags/{self.dag}/dagRuns/{run}/taskInstances/{TASK}"
        self.api.call("PATCH", path, {"new_state": "failed"})

    def clear(self) -> None:
        self.clear_tasks(self.dag, self._run_under_way(), TASK)

    def clear_tasks(self, dag_id: str, run: str, *tasks: str) -> None:
        cleared = {"dry_run": False, "task_ids": tasks, "only_failed": False, "reset_dag_runs": True}
        self.api.call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", {**cleared, "dag_run_id": run})

    def _run_under_way(self) -> str:
        """A person acts on a task that is at work, not on one between two watches."""
        wait_until(tolerant(lambda: self.state_of_watch() in {"deferred", "running"}), 180, "a task at work")
        return self.watch()

    def log_of(self, run: str, try_number: int = 1, *, at: Collection[str] = ()) -> list[str]:
        """The lines that the UI shows of the task's log, with the level filter set to `at`."""
        return self.lines_of(self.dag, run, f"{TASK}/logs/{try_number}", at=at)

    def lines_of(self, dag_id: str, run: str, log: str, *, at: Collection[str] = (), more: str = "") -> list[str]:
        found = self.run(dag_id, run, f"/taskInstances/{log}?full_content=true{more}")["content"]
        return [" ".join(str(line["event"]).split()) for line in found if not at or line.get("level") in at]


@contextmanager
def running_airflow(installation: Installation, dags: set[str]) -> Iterator[Platform]:
    """Run Airflow while the block lasts, which begins once it is healthy and has these DAGs."""
    parts, api = Parts(installation), Api(installation)
    try:
        parts.start_all()
        wait_until(api.is_healthy, 240, "a healthy Airflow")
        wait_until(tolerant(lambda: dags <= api.dag_ids()), 120, "the DAGs")
        yield Platform(installation, parts, api)
    finally:
        parts.stop_all()
        end_processes(left_behind(installation), seconds=0.0)


def tolerant(condition: Callable[[], bool]) -> Callable[[], bool]:
    def holds() -> bool:
        try:
            return condition()
        except AirflowUnavailable:
            return False

    return holds
