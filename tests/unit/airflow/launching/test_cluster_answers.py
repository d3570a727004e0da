"""Understanding what YARN's ResourceManager says and `spark-submit --status` prints: as the pinned versions do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.causes.table import CAUSES
from sessionizer_airflow.launching import kubernetes_manager, yarn
from sessionizer_airflow.launching.cluster import find_cause
from sessionizer_airflow.launching.launcher import DriverObservation

if TYPE_CHECKING:
    from sessionizer.causes.cause import Cause
    from support.fixtures.reviewed import Reviewed

STATUS = """WARNING: Using incubator modules: jdk.incubator.vector
Submitting a request for the status of submission streams:sessionizer-0123456789ab in k8s://https://kubernetes:6443.
Application status (driver):\x20
\t pod name: sessionizer-0123456789ab
\t namespace: streams
\t labels: spark-role -> driver, sessionizer-driver -> 0123456789ab
\t service account name: spark
\t volumes: N/A
\t start time: 2026-11-21T14:00:01Z
\t phase: {phase}
\t container status:\x20
\t\t container name: spark-kubernetes-driver
\t\t container state: {state}
"""
REFUSED = """Exception in thread "main" java.net.ConnectException: Call From vm/127.0.0.1 to localhost:1 failed
\tat java.base/jdk.internal.reflect.NativeConstructorAccessorImpl.newInstance0(Native Method)
\tat org.apache.hadoop.yarn.client.cli.ApplicationCLI.main(ApplicationCLI.java:128)
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)
\t... 22 more
"""


def seen(*described: dict[str, Any]) -> DriverObservation:
    return yarn.combine_applications([yarn.YarnApplication.of(one) for one in described])


def application(state: str, final: str = "UNDEFINED", number: int = 1, diagnostics: str = "") -> dict[str, Any]:
    """As the ResourceManager describes one, of the fields that are looked at."""
    name = f"application_1700000000000_000{number}"
    return {"id": name, "user": "alice", "state": state, "finalStatus": final, "diagnostics": diagnostics}


@pytest.mark.parametrize("state", ["NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"])
def test_applications_that_live(state: str) -> None:
    said = f"YARN says that application_1700000000000_0001 is {state}"
    queued = None if state == "RUNNING" else CAUSES["no_resources"]
    assert seen(application(state)) == DriverObservation(True, said, queued)


@pytest.mark.parametrize(
    ("state", "final", "diagnostics", "told"),
    [
        ("FINISHED", "SUCCEEDED", "", "FINISHED (SUCCEEDED)"),
        (
            "FINISHED",
            "FAILED",
            "User application exited\n  with status 3",
            "FINISHED (FAILED): User application exited with status 3",
        ),
        ("KILLED", "KILLED", "killed by user ops", "KILLED: killed by user ops"),
        (
            "ACCEPTED",
            "UNDEFINED",
            "Queue's AM resource limit exceeded.",
            "ACCEPTED: Queue's AM resource limit exceeded.",
        ),
        ("FAILED", "FAILED", "no route, token=abcdef0123", "FAILED: no route, token=***"),
    ],
)
def test_why_applications_wait_or_ended(state: str, final: str, diagnostics: str, told: str) -> None:
    found = seen(application(state, final, diagnostics=diagnostics))
    assert found.said.startswith("YARN ")
    assert found.said.endswith(f" application_1700000000000_0001 is {told}")
    assert found.alive is (state == "ACCEPTED")


@pytest.mark.parametrize(("code", "cause"), [(33, CAUSES["HomeNotShared"]), (1, None), (13, None)])
def test_a_driver_without_our_home_is_known_by_its_exit_code(code: int, cause: Cause | None) -> None:
    """It can leave no exit record that anybody sees."""
    told = f"User application exited with status {code}"
    assert seen(application("FINISHED", "FAILED", diagnostics=told)).cause == cause
    printed = STATUS.format(phase="Failed", state="terminated") + f"\t\t exit code: {code}\n"
    found = kubernetes_manager.parse_pod_status(printed)
    assert found is not None
    assert found.cause == cause


def test_one_live_application_of_two_is_enough() -> None:
    assert seen(application("FAILED", "FAILED"), application("RUNNING", number=2)).alive


def test_no_application(reviewed: Reviewed) -> None:
    assert seen() == DriverObservation(False, seen().said)
    reviewed(seen().said)


@pytest.mark.parametrize(
    ("phase", "alive"),
    [("Pending", True), ("Running", True), ("Unknown", True), ("Succeeded", False), ("Failed", False)],
)
def test_phases_of_a_pod(phase: str, alive: bool) -> None:
    found = kubernetes_manager.parse_pod_status(STATUS.format(phase=phase, state="terminated"))
    assert found == DriverObservation(alive, found.said if found else "")
    assert found.said.endswith(f" {phase} (terminated)")


def test_pod_that_is_not_there(reviewed: Reviewed) -> None:
    found = kubernetes_manager.parse_pod_status("Submitting a request.\nApplication not found.\n")
    assert found is not None
    assert not found.alive
    reviewed(found.said)


def test_answer_without_a_pod_is_no_answer() -> None:
    assert kubernetes_manager.parse_pod_status("WARNING: Using incubator modules: jdk.incubator.vector\n") is None


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        (REFUSED, "Caused by: java.net.ConnectException: Connection refused"),
        ("spark-submit: cannot find JAVA_HOME\n", "spark-submit: cannot find JAVA_HOME"),
        ("", ""),
    ],
)
def test_cause_of_a_failed_call(printed: str, cause: str) -> None:
    assert find_cause(printed) == cause
