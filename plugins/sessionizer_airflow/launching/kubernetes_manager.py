"""Drivers as pods: a pod's name is made from the driver's uid. spark-submit asks for the pod and deletes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sessionizer.causes.table import CAUSES
from sessionizer.control.records.process_records import SUBMITTED
from sessionizer.errors import ClusterUnreachable
from sessionizer_airflow.launching.cluster import run_program
from sessionizer_airflow.launching.connection import DRIVER_VARIABLES, Manager
from sessionizer_airflow.launching.launcher import DriverObservation, cause_of_exit

LIVE_PHASES = frozenset({"Pending", "Running", "Unknown"})
PHASE = re.compile(r"^\s*phase: (\w+)", re.MULTILINE)
STATE = re.compile(r"^\s*(?:container state|termination reason): (.+)$", re.MULTILINE)
EXIT_CODE = re.compile(r"^\s*exit code: (\d+)$", re.MULTILINE)
ABSENT = re.compile(r"^(?:Application not found|No applications found)\.", re.MULTILINE)


@dataclass(frozen=True)
class KubernetesManager:
    """Implementation of ``ClusterManager`` for pods. A submission is ``namespace:pod``, as spark-submit calls it."""

    master: str
    namespace: str | None
    binary: str = "spark-submit"

    def submission(self, uid: str) -> str:
        """See ``ClusterManager``."""
        return f"{self.namespace}:sessionizer-{uid}"

    def settings(self, submission: str) -> dict[str, str]:
        """See ``ClusterManager``. Spark never starts a pod a second time."""
        pod = submission.partition(":")[2]
        return {
            "spark.kubernetes.submission.waitAppCompletion": "false",
            "spark.kubernetes.driver.pod.name": pod,
            f"{DRIVER_VARIABLES[Manager.KUBERNETES]}{SUBMITTED}": "1",
            "spark.kubernetes.driver.label.sessionizer-driver": pod.removeprefix("sessionizer-"),
        }

    def look_for(self, submission: str) -> DriverObservation:
        """See ``ClusterManager``."""
        command = self.status_command(submission)
        found = parse_pod_status(run_program(command))
        if found is None:
            raise ClusterUnreachable(tuple(command), "the answer tells no phase")
        return found

    def last_words(self, submission: str) -> list[str]:  # noqa: ARG002 - others need it
        """Return nothing: only kubectl can read a pod's log, and we do not run it. See ``ClusterManager``."""
        return []

    def kill(self, submission: str) -> None:
        """See ``ClusterManager``. Deleting a pod that is not there is no error."""
        run_program(self.kill_command(submission))

    def status_command(self, submission: str) -> list[str]:
        """Return the command that asks for the driver's pod."""
        return [self.binary, "--master", self.master, "--status", submission]

    def kill_command(self, submission: str) -> list[str]:
        """Return the command that deletes the driver's pod. Kubernetes then deletes the pods of its executors."""
        return [self.binary, "--master", self.master, "--kill", submission]


def parse_pod_status(printed: str) -> DriverObservation | None:
    """Parse the answer of ``spark-submit --status``. Return None if it names no pod."""
    phase = PHASE.search(printed)
    if phase is None:
        return DriverObservation(alive=False, said="Kubernetes knows no pod of it") if ABSENT.search(printed) else None
    details = ", ".join(STATE.findall(printed))
    said = f"Kubernetes says that its pod is {phase[1]}" + (f" ({details})" if details else "")
    # A pod that is not scheduled on a machine has no containers.
    waits = phase[1] == "Pending" and not details
    cause = CAUSES["no_resources"] if waits else cause_of_exit(EXIT_CODE.findall(printed))
    return DriverObservation(alive=phase[1] in LIVE_PHASES, said=said, cause=cause)
