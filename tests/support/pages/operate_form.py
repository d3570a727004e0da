"""The forms of `sessionizer.operate` and `sessionizer.upgrade`, as a user fills them in, through Airflow's API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sessionizer_demo.local_airflow.api import wait_until
from support.processes.live_airflow import tolerant

if TYPE_CHECKING:
    from support.processes.live_airflow import Platform

OPERATE = "sessionizer.operate"


@dataclass
class OperateForm:
    """Of a running Airflow; the stream is the platform's."""

    platform: Platform
    dag: ClassVar = OPERATE

    def ask(self, verb: str, **form: Any) -> str:
        """The id of a run."""
        body = {"logical_date": None, "conf": {"verb": verb, "stream": self.platform.stream, **form}}
        return str(self.platform.api.call("POST", f"/api/v2/dags/{self.dag}/dagRuns", body)["dag_run_id"])

    def states(self, run: str) -> dict[str, str]:
        path = f"/api/v2/dags/{self.dag}/dagRuns/{run}/taskInstances"
        return {task["task_id"]: task["state"] for task in self.platform.api.call("GET", path)["task_instances"]}

    def unskipped(self, run: str) -> dict[str, str]:
        """Return the states of the tasks that were not skipped. The form has a task for each verb, and one runs."""
        return {task: state for task, state in self.states(run).items() if state != "skipped"}

    def tries(self, run: str) -> dict[str, int]:
        path = f"/api/v2/dags/{self.dag}/dagRuns/{run}/taskInstances"
        return {task["task_id"]: task["try_number"] for task in self.platform.api.call("GET", path)["task_instances"]}

    def note(self, run: str) -> str:
        return str(self.platform.api.call("GET", f"/api/v2/dags/{self.dag}/dagRuns/{run}")["note"])

    def state(self, run: str) -> str:
        return str(self.platform.api.call("GET", f"/api/v2/dags/{self.dag}/dagRuns/{run}")["state"])

    def wait_for_plan(self, run: str) -> dict[str, Any]:
        """What is shown to whoever approves."""
        wait_until(tolerant(lambda: self.states(run).get("approve") == "awaiting_input"), 300, "a plan")
        shown: dict[str, Any] = self.platform.api.call("GET", self.approval(run))
        return shown

    def approval(self, run: str) -> str:
        return f"/api/v2/dags/{self.dag}/dagRuns/{run}/taskInstances/approve/-1/hitlDetails"

    def answer(self, run: str, option: str) -> None:
        """As a person does, who reads first: Airflow loses an answer while it has not noted that the task waits."""
        wait_until(lambda: self._is_noted_to_wait(run), 60, "a scheduler that knows that the plan waits")
        self.platform.api.call("PATCH", self.approval(run), {"chosen_options": [option], "params_input": {}})

    def _is_noted_to_wait(self, run: str) -> bool:
        """Only the scheduler's log tells."""
        log = (self.platform.installation.logs / "scheduler.log").read_text(errors="replace")
        ended = f"TaskInstance Finished: dag_id={self.dag}, task_id=approve, run_id={run},"
        return log.count(ended) >= self.tries(run)["approve"]

    def wait_for_end(self, run: str, seconds: float = 240) -> str:
        wait_until(tolerant(lambda: self.state(run) in {"success", "failed"}), seconds, f"the end of {run}")
        return self.state(run)

    def clear(self, run: str, *tasks: str) -> None:
        cleared = {"dry_run": False, "task_ids": tasks, "only_failed": False, "reset_dag_runs": True}
        self.platform.api.call("POST", f"/api/v2/dags/{self.dag}/clearTaskInstances", {**cleared, "dag_run_id": run})

    def errors(self, run: str, task: str) -> list[str]:
        path = f"/api/v2/dags/{self.dag}/dagRuns/{run}/taskInstances/{task}/logs/1?full_content=true"
        content = self.platform.api.call("GET", path)["content"]
        return [" ".join(str(line["event"]).split()) for line in content if line.get("level") == "error"]
