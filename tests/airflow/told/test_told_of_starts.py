"""From what keeps the real spark-submit from starting a driver to the words of the notifier."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.launch.installation import jar_folder
from sessionizer_airflow.launching.by_connection import ConnectionLauncher
from sessionizer_airflow.project import Project
from support.expected.told_causes import made
from support.faults.other_releases import spark_of_a_later_java
from support.places import REPOSITORY
from support.processes.standalone_spark import standalone_master

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.processes.watched_stream import WatchedStream

APPLICATION = REPOSITORY / "jobs" / "main.py"


def nothing(_: Path) -> dict[str, str]:
    return {}


def broken_package(home: Path) -> dict[str, str]:
    """The variables by which a package that drivers import does not load."""
    folder = home / "broken"
    folder.mkdir()
    (folder / "typer.py").write_text("import no_such_package\n")
    return {"PYTHONPATH": str(folder)}


@dataclass(frozen=True)
class FalseStart:
    """Drivers on `master`, in such an `environment`, with what the `project` has, do not start for `cause`."""

    cause: str
    names: str
    master: str = "local[1]"
    environment: Callable[[Path], dict[str, str]] = nothing
    project: dict[str, Path] = field(default_factory=dict)


FALSE_STARTS = {
    "no Java": FalseStart("no_java", "/nowhere/java", environment=lambda _: {"JAVA_HOME": "/nowhere/java"}),
    "a Java that is too old": FalseStart("old_java", "class files up to", environment=spark_of_a_later_java),
    "no memory": FalseStart("no_memory", "of heap", environment=lambda _: {"SPARK_DRIVER_MEMORY": "900000g"}),
    "YARN without its configuration": FalseStart("no_yarn_configuration", "HADOOP_CONF_DIR", "yarn"),
    "code that does not load": FalseStart("broken_code", "no_such_package", environment=broken_package),
    "no application": FalseStart(
        "no_application", "/nowhere/main.py", project={"application": Path("/nowhere/main.py")}
    ),
}
QUICK = {"no Java", "YARN without its configuration"}
"""One before Java starts and one of Spark's own: what runs in `make test`."""
LATER_STARTS = {
    "a master without a port": FalseStart("bad_master", "spark://one", "spark://one"),
    "a master with a wrong number of cores": FalseStart("bad_master", "local[many]", "local[many]"),
    "no jars": FalseStart("no_jar", "io.delta", project={"jars": Path("/nowhere/jars")}),
    "a host that is not there": FalseStart(
        "cluster_unreachable", "no-such-host.invalid", "spark://no-such-host.invalid:7077"
    ),
    "a master that is away": FalseStart("cluster_unreachable", "127.0.0.1:1", "spark://127.0.0.1:1"),
}


def check(start: FalseStart, watched: WatchedStream, monkeypatch: pytest.MonkeyPatch, grace_ms: int = 120_000) -> None:
    home = watched.home.platform
    watched.platform.add("clicks")
    (home / "in").mkdir()
    (home / "in" / "1.json").write_text('{"u": "ann", "ts": 1700000000000, "id": "1"}\n')
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": start.master}))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in start.environment(home).items():
        monkeypatch.setenv(name, value)
    places: dict[str, Any] = {"application": APPLICATION, "jars": jar_folder(), **start.project}
    project = Project(streams=watched.streams, home=home, **places)
    watched.watch(ConnectionLauncher(project=project), within_s=200, patience={"startup_grace_ms": grace_ms})
    watched.check(start.cause, names=start.names)
    watched.check_status(start.cause)


@made(*(start.cause for start in FALSE_STARTS.values()))
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in FALSE_STARTS]
)
def test_what_people_are_told_of_a_start_that_fails(
    name: str, watched: WatchedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(FALSE_STARTS[name], watched, monkeypatch)


@made(*(start.cause for start in LATER_STARTS.values()))
@pytest.mark.long
@pytest.mark.parametrize("name", LATER_STARTS)
def test_what_people_are_told_of_a_start_that_fails_in_spark(
    name: str, watched: WatchedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(LATER_STARTS[name], watched, monkeypatch)


@made("no_resources")
@pytest.mark.long
def test_what_people_are_told_of_a_cluster_without_workers(
    watched: WatchedStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cluster").mkdir()
    with standalone_master(tmp_path / "cluster") as url:
        check(FalseStart("no_resources", "gives it no executor", url), watched, monkeypatch, grace_ms=45_000)
