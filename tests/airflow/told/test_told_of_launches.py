"""From what keeps the supervisor from launching or ending a driver where a connection says to the notifier's words."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.control.lease import read_lease
from sessionizer_airflow.launching.by_connection import ConnectionLauncher
from sessionizer_airflow.project import Project
from support.expected.supervision_records import launched, works
from support.expected.told_causes import made
from support.places import REPOSITORY, SUPPORT

if TYPE_CHECKING:
    from support.processes.watched_stream import WatchedStream


@dataclass(frozen=True)
class Refusal:
    """What the connection says is refused for `cause`; `fields` are those of the error in its remedy."""

    cause: str
    connection: dict[str, Any] | None
    names: str
    fields: dict[str, str] = field(default_factory=dict)


IN_YARN = {"deploy-mode": "cluster", "resource-manager": "http://127.0.0.1:1"}
REFUSALS = {
    "no connection": Refusal("SparkConnectionMissing", None, "spark_of_the_site", {"name": "spark_of_the_site"}),
    "no such master": Refusal(
        "UnusableConnection",
        {"host": "sparkle://one:7077"},
        "host is 'sparkle://one:7077'. Use local[n], spark://host:7077, yarn",
        {"field": "host", "connection": "spark_of_the_site"},
    ),
    "no client of Kubernetes": Refusal(
        "KubernetesSupportMissing",
        {"host": "k8s://https://kubernetes:6443", "extra": {"deploy-mode": "cluster", "namespace": "streams"}},
        "spark_of_the_site",
    ),
    "no resource manager": Refusal(
        "ResourceManagerUnknown", {"host": "yarn", "extra": {"deploy-mode": "cluster"}}, "HADOOP_CONF_DIR"
    ),
    "no spark-submit": Refusal(
        "ProgramMissing",
        {"host": "yarn", "extra": {**IN_YARN, "spark-binary": "spark3-submit"}},
        "spark3-submit is not on the PATH",
        {"program": "spark3-submit"},
    ),
}


def launcher_of(watched: WatchedStream) -> ConnectionLauncher:
    home = watched.home.platform
    (home / "jars").mkdir(exist_ok=True)
    application = REPOSITORY / "jobs" / "main.py"
    project = Project(application=application, streams=watched.streams, jars=home / "jars", home=home)
    return ConnectionLauncher(project=project, connection="spark_of_the_site")


def connect(monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any]) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_OF_THE_SITE", json.dumps({"conn_type": "spark", **connection}))


@made(*(refusal.cause for refusal in REFUSALS.values()))
@pytest.mark.parametrize("name", REFUSALS)
def test_what_people_are_told_of_a_connection(
    name: str, watched: WatchedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = REFUSALS[name]
    if refusal.connection is not None:
        connect(monkeypatch, refusal.connection)
    watched.watch(launcher_of(watched))
    watched.check(refusal.cause, names=refusal.names, **refusal.fields)


@made("OSError")
def test_what_people_are_told_of_a_program_that_the_system_does_not_run(watched: WatchedStream) -> None:
    """As after a download that was cut short."""
    program = watched.home.platform / "spark-submit"
    program.touch(mode=0o755)
    watched.watch(lambda call: [str(program), *call.argv()])
    watched.check("OSError", names="Exec format error")


SPARK_SUBMIT = """#!/bin/bash
export PYTHONPATH={packages}
while [ "$1" != run ]; do shift; done
setsid unshare --uts bash -c 'hostname worker-7; exec "$@"' - {python} {driver} "$@" > /dev/null 2>&1 &
"""


@made("ClusterUnreachable")
def test_what_people_are_told_of_a_cluster_that_cannot_be_asked(
    watched: WatchedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver has been submitted, and is silent; the address of the resource manager is one that nobody answers."""
    connect(monkeypatch, {"host": "yarn", "extra": IN_YARN})
    watched.platform.add("clicks")
    programs = watched.home.platform / "programs"
    programs.mkdir()
    driver = SUPPORT / "processes" / "scripted_driver.py"
    there = {"python": sys.executable, "driver": driver, "packages": os.environ["PYTHONPATH"]}
    (programs / "spark-submit").write_text(SPARK_SUBMIT.format(**there))
    (programs / "spark-submit").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    watched.watch(launcher_of(watched), lambda: works(watched.home))
    lease = read_lease(watched.home)
    assert lease is not None
    assert lease.pid is not None
    os.kill(lease.pid, signal.SIGSTOP)
    try:
        watched.watch(launcher_of(watched), patience={"stale_limit_ms": 2_000})
    finally:
        os.kill(lease.pid, signal.SIGKILL)
    apps = f"http://127.0.0.1:1/ws/v1/cluster/apps?applicationTags={launched(watched.home).submission}"
    asked = f"curl -X GET {apps}&deSelects=resourceRequests"
    watched.check("ClusterUnreachable", names="Connection refused", asked=asked)
