"""Who is asked about drivers in YARN, and what becomes of those that do not answer."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sessionizer.causes.cause import Cause
from sessionizer.causes.table import CAUSES
from sessionizer.errors import ClusterUnreachable, ResourceManagerUnknown
from sessionizer_airflow.launching import cluster as kubernetes_manager
from sessionizer_airflow.launching import yarn
from sessionizer_airflow.launching.cluster import find_cause
from sessionizer_airflow.launching.local import DriverObservation
from sessionizer_airflow.launching.yarn import (
    YarnManager,
    fetch_log,
    read_settings,
    resolve_setting,
    web_addresses,
)
from support.fixtures.reviewed import Reviewed
from support.places import known
from support.processes.hadoop import write_settings
from support.processes.ports import free_addresses, served

RM = "yarn.resourcemanager"
PAIR = {f"{RM}.ha.enabled": "true", f"{RM}.ha.rm-ids": "rm1, rm2"}


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({f"{RM}.webapp.address": "rm:8088"}, ("http://rm:8088",)),
        ({f"{RM}.hostname": "rm"}, ("http://rm:8088",)),
        ({f"{RM}.hostname": "rm", f"{RM}.webapp.address": "${yarn.resourcemanager.hostname}:80"}, ("http://rm:80",)),
        ({f"{RM}.hostname": "rm", "yarn.http.policy": "HTTPS_ONLY"}, ("https://rm:8090",)),
        ({**PAIR, f"{RM}.hostname.rm1": "a", f"{RM}.webapp.address.rm2": "b:99"}, ("http://a:8088", "http://b:99")),
        ({}, ("http://0.0.0.0:8088",)),
    ],
)
def test_addresses_are_those_of_hadoops_settings(settings: dict[str, str], addresses: tuple[str, ...]) -> None:
    assert web_addresses(settings) == addresses


def test_a_value_that_refers_to_itself_is_left_alone() -> None:
    assert resolve_setting({"a": "${b}", "b": "${a}"}, "a") in {"${a}", "${b}"}


def test_settings_are_read_as_hadoop_writes_them() -> None:
    text = "<configuration><property><name> a </name><value> 1 </value><final>true</final></property></configuration>"
    assert read_settings(text) == {"a": "1"}


def test_the_connection_goes_before_the_configuration(tmp_path: Path) -> None:
    write_settings(tmp_path / "yarn-site.xml", {f"{RM}.hostname": "rm"})
    environment = {"HADOOP_CONF_DIR": str(tmp_path)}
    assert YarnManager.of(None, environment).addresses == ("http://rm:8088",)
    assert YarnManager.of("http://one:1/, https://two:2", environment).addresses == (
        "http://one:1", "https://two:2",
    )  # fmt: skip


@pytest.mark.parametrize("environment", [{}, {"HADOOP_CONF_DIR": "/nowhere"}])
def test_without_an_address_nothing_is_launched_and_nothing_believed(environment: dict[str, str]) -> None:
    manager = YarnManager.of(None, environment)
    with pytest.raises(ResourceManagerUnknown, match="HADOOP_CONF_DIR"):
        manager.settings("0123456789ab")
    with pytest.raises(ClusterUnreachable, match="neither HADOOP_CONF_DIR nor YARN_CONF_DIR"):
        manager.look_for("0123456789ab")


def test_a_broken_configuration_is_none(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    assert YarnManager.of(None, {"YARN_CONF_DIR": str(tmp_path)}).addresses == ()


def test_a_standby_sends_us_to_the_other() -> None:
    with serving(200, "STANDBY") as standby, serving(200) as active:
        assert YarnManager((standby, active)).applications("0123456789ab") == []
        YarnManager((standby, active)).kill_application("application_1_0001")


def test_one_that_starts_is_not_believed_that_it_has_no_application() -> None:
    with serving(200, "INITIALIZING") as address, pytest.raises(ClusterUnreachable, match="initializing, not active"):
        YarnManager((address,)).applications("0123456789ab")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (307, "sends us elsewhere"),
        (401, "wants a Kerberos ticket, which is not sent"),
        (403, "says 403 Forbidden"),
        (500, "says 500 Internal Server Error"),
        (204, "answers nothing that a ResourceManager would"),
    ],
)
def test_who_does_not_answer_is_told_with_the_question(code: int, said: str) -> None:
    with serving(code) as address, pytest.raises(ClusterUnreachable) as raised:
        YarnManager((address,)).applications("0123456789ab")
    assert raised.value.cause == f"{address} {said}"
    assert f"curl -X GET {address}/ws/v1/cluster/apps?applicationTags=0123456789ab" in raised.value.asked


def test_a_closed_port_is_no_answer() -> None:
    (closed,) = free_addresses(1)
    with pytest.raises(ClusterUnreachable, match=f"http://{closed} .*Connection refused"):
        YarnManager((f"http://{closed}",)).applications("0123456789ab")


def test_a_log_that_is_nowhere_is_none() -> None:
    (closed,) = free_addresses(1)
    assert fetch_log("", "stderr", 100) is None
    assert fetch_log(f"http://{closed}/node/containerlogs/container_1/alice", "stderr", 100) is None


@contextmanager
def serving(code: int, state: str = "ACTIVE") -> Iterator[str]:
    """A ResourceManager that gives every question the same answer: what a real one does not do when it is wanted."""
    answer = json.dumps({"clusterInfo": {"haState": state}, "apps": {}}).encode()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answer if code == 200 else b""
            self.send_response(code)
            self.send_header("Location", "http://name-that-means-nothing-here/")
            self.send_header("WWW-Authenticate", "Negotiate")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET  # noqa: N815 - so the base class calls it

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Answers)) as port:
        yield f"http://127.0.0.1:{port}"


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
    return yarn.combine_applications([*described])


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
    found = known(kubernetes_manager.parse_pod_status(printed))
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
    found = known(kubernetes_manager.parse_pod_status("Submitting a request.\nApplication not found.\n"))
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
