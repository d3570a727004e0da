"""From what keeps the supervisor from launching or ending a driver where a connection says to the notifier's words."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from sessionizer_airflow.launching.by_connection import ConnectionLauncher
from sessionizer_airflow.project import Project
from support.expected.supervision_records import launched, works
from support.expected.told_causes import made
from support.places import REPOSITORY
from support.processes import fake_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.processes.watched_stream import WatchedStream


@dataclass(frozen=True)
class Refusal:
    """What the connection says is refused for `cause`; `fields` are those of the error in its remedy."""

    cause: str
    connection: dict[str, Any] | None
    names: str
    fields: dict[str, str] = field(default_factory=dict)


REFUSALS = {
    "no connection": Refusal("SparkConnectionMissing", None, "spark_of_the_site", {"name": "spark_of_the_site"}),
    "no such master": Refusal(
        "UnusableConnection",
        {"host": "sparkle://one:7077"},
        "host is 'sparkle://one:7077'; allowed: local[n], spark://host:7077, yarn",
        {"field": "host", "connection": "spark_of_the_site"},
    ),
    "no client of Kubernetes": Refusal(
        "KubernetesSupportMissing",
        {"host": "k8s://https://kubernetes:6443", "extra": {"deploy-mode": "cluster", "namespace": "streams"}},
        "spark_of_the_site",
    ),
    "no spark-submit": Refusal(
        "ProgramMissing",
        {"host": "yarn", "extra": {"deploy-mode": "cluster", "spark-binary": "spark3-submit"}},
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


@pytest.fixture
def programs(watched: WatchedStream, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stand-ins for the programs that talk to a cluster, before the real ones on the PATH."""
    state, programs = watched.home.platform / "cluster", watched.home.platform / "programs"
    state.mkdir()
    programs.mkdir()
    for name in ("yarn", "spark-submit"):
        write_program(programs / name, f"#!{sys.executable}\n{Path(fake_cluster.__file__).read_text()}")
    (programs / "scripted_driver.py").symlink_to(fake_cluster.SCRIPTED_DRIVER)
    monkeypatch.setenv("FAKE_CLUSTER", str(state))
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    yield programs
    for file in state.glob("*.pid"):
        fake_cluster.end(int(file.read_text()))


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


YARN_SITE = """<configuration>
<property><name>yarn.resourcemanager.address</name><value>127.0.0.1:1</value></property>
<property><name>yarn.resourcemanager.connect.max-wait.ms</name><value>1</value></property>
<property><name>yarn.resourcemanager.connect.retry-interval.ms</name><value>1</value></property>
<property><name>ipc.client.connect.max.retries</name><value>0</value></property>
</configuration>
"""


@made("ClusterUnreachable")
@pytest.mark.long
def test_what_people_are_told_of_a_cluster_that_cannot_be_asked(
    watched: WatchedStream, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver is silent, and what is asked about it is the real program `yarn`, whose resource manager is away."""
    connect(monkeypatch, {"host": "yarn", "extra": {"deploy-mode": "cluster"}})
    watched.platform.add("clicks")
    watched.watch(launcher_of(watched), lambda: works(watched.home))
    (programs / "yarn-site.xml").write_text(YARN_SITE)
    jars = Path(pyspark.__file__).parent / "jars"
    yarn = f"exec java -cp '{programs}:{jars}/*' org.apache.hadoop.yarn.client.cli.ApplicationCLI \"$@\"\n"
    write_program(programs / "yarn", f"#!/bin/sh\n{yarn}")
    submission = launched(watched.home).submission
    os.kill(int((watched.home.platform / "cluster" / f"{submission}.pid").read_text()), signal.SIGSTOP)
    watched.watch(launcher_of(watched))
    asked = f"yarn application -list -appStates ALL -appTags {submission}"
    watched.check("ClusterUnreachable", names="to localhost:1 failed", asked=asked)
