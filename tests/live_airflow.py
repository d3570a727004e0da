"""A test's hold on a running Airflow and the stream `clicks` that it supervises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessionizer.control.clock import epoch_ms
from sessionizer.control.heartbeat import read_heartbeat
from sessionizer.control.status import read_observation
from sessionizer.control.stream_home import StreamHome
from sessionizer_airflow.local_airflow.api import Api, wait_until

if TYPE_CHECKING:
    from sessionizer.control.observation import Observation
    from sessionizer_airflow.local_airflow.installation import Installation
    from sessionizer_airflow.local_airflow.parts import Parts


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

    def behave(self, how: str) -> None:
        """Drivers that start from now on do so."""
        (self.installation.platform_home / "behaviour").write_text(how)

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
