"""From what keeps the real spark-submit from starting a driver to the words of the notifier."""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sessionizer.control.lease import read_lease
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.installation import jar_folder
from sessionizer_airflow.launching import local
from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.launching.spark_submit import DriverCall
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision import decide
from support.expected.driver_statuses import launched, works
from support.expected.told_causes import made
from support.faults.dead_mounts import mount_that_hangs
from support.faults.spoiled_streams import a_file, a_file_for_the_quarantine, table_of_another
from support.fixtures.supervisor import scripted_command
from support.places import REPOSITORY, SUPPORT, known
from support.processes.standalone_spark import standalone_master
from support.processes.watched_stream import AS_IT_IS, WatchedStream, real_driver
from support.releases.environments import delta_without, spark_of_a_later_java, spark_with_less_public
from support.streams.drawn_logs import drawn_cases
from support.streams.stage import Stage, clicks_spec

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
    "a master without a port": FalseStart("bad_master", "spark://one", "spark://one"),
    "a master with a wrong number of cores": FalseStart("bad_master", "local[many]", "local[many]"),
    "no jars": FalseStart("no_jar", "io.delta", project={"jars": Path("/nowhere/jars")}),
    "a host that is not there": FalseStart(
        "cluster_unreachable", "no-such-host.invalid", "spark://no-such-host.invalid:7077"
    ),
    "a master that is away": FalseStart("cluster_unreachable", "127.0.0.1:1", "spark://127.0.0.1:1"),
}
QUICK = {"no Java", "YARN without its configuration"}
"""One before Java starts and one of Spark's own: what runs in `make test`."""


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


@made("no_resources")
@pytest.mark.long
def test_what_people_are_told_of_a_cluster_without_workers(
    watched: WatchedStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cluster").mkdir()
    with standalone_master(tmp_path / "cluster") as url:
        check(FalseStart("no_resources", "gives it no executor", url), watched, monkeypatch, grace_ms=45_000)


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
@pytest.mark.parametrize("name", drawn_cases(REFUSALS, 2))
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
    lease = known(read_lease(watched.home))
    assert lease.pid is not None
    os.kill(lease.pid, signal.SIGSTOP)
    try:
        watched.watch(launcher_of(watched), patience={"stale_limit_ms": 2_000})
    finally:
        os.kill(lease.pid, signal.SIGKILL)
    apps = f"http://127.0.0.1:1/ws/v1/cluster/apps?applicationTags={launched(watched.home).submission}"
    asked = f"curl -X GET {apps}&deSelects=resourceRequests"
    watched.check("ClusterUnreachable", names="Connection refused", asked=asked)


IMPATIENT = {"startup_grace_ms": 3_000, "stale_limit_ms": 2_000}


def behind_another(call: DriverCall) -> list[str]:
    """As Python is behind the JVM of spark-submit."""
    return ["bash", "-c", '"$@" & wait', "-", *scripted_command(call)]


def on_another_machine(call: DriverCall) -> list[str]:
    """As in a container: it has a host name of its own."""
    return ["unshare", "--uts", "bash", "-c", 'hostname worker-7; exec "$@"', "-", *scripted_command(call)]


def send(number: signal.Signals) -> Callable[[StreamHome], None]:
    return lambda home: os.kill(known(launched(home).pid), number)


def nothing_happens(_: StreamHome) -> None:
    """It does by itself what is asked for."""


@dataclass(frozen=True)
class Fate:
    """What `happens` to a driver once it works, if it comes to work; `cause` is what people are told."""

    cause: str
    names: str
    happens: Callable[[StreamHome], None] = nothing_happens
    behaviour: str = "steady"
    command: Callable[[DriverCall], list[str]] = scripted_command


FATES = {
    "killed": Fate("killed", "vanished", send(signal.SIGKILL)),
    "hung": Fate("hung", "silent for", send(signal.SIGSTOP)),
    "never comes to a batch": Fate("no_start", "no batch", behaviour="mute"),
    "its JVM is gone": Fate("half_gone", "its JVM is gone", send(signal.SIGKILL), command=behind_another),
    "does not leave": Fate("not_leaving", "nobody has foreseen", behaviour="linger"),
}

QUICK_FATES = {"killed", "hung", "does not leave"}
"""What runs in `make test`: tests/airflow/supervision makes the others as well."""


@made(*(fate.cause for fate in FATES.values()))
@pytest.mark.parametrize(
    "name", [name if name in QUICK_FATES else pytest.param(name, marks=pytest.mark.long) for name in FATES]
)
def test_what_people_are_told_of_a_process(name: str, watched: WatchedStream, monkeypatch: pytest.MonkeyPatch) -> None:
    fate = FATES[name]
    monkeypatch.setattr(decide, "EXIT_GRACE_MS", 1_000)
    watched.platform.add("clicks")
    (watched.platform.home / "behaviour").write_text(fate.behaviour)
    # one that comes to work may take its time until then
    patience = IMPATIENT if fate.behaviour == "mute" else AS_IT_IS
    watched.watch(fate.command, lambda: works(watched.home), patience=patience)
    if not watched.told:
        fate.happens(watched.home)
        watched.watch(fate.command, patience=IMPATIENT)
    watched.check(fate.cause, names=fate.names)
    watched.check_status(fate.cause)


@pytest.mark.long
@made("out_of_sight")
def test_what_people_are_told_of_a_driver_whose_machine_is_gone(watched: WatchedStream) -> None:
    """It was started there by hand, or by a worker that is gone as well."""
    watched.platform.add("clicks")
    watched.watch(on_another_machine, lambda: works(watched.home))
    process = known(launched(watched.home).pid)
    (watched.home.control / "launch.json").unlink()
    os.kill(process, signal.SIGKILL)
    watched.watch(on_another_machine, patience={**IMPATIENT, "takeover_after_ms": 2_000})
    watched.check("out_of_sight", names="worker-7 cannot be seen from here")


@pytest.mark.long
@made("DriverOutOfReach")
def test_what_people_are_told_of_a_hung_driver_that_is_out_of_reach(watched: WatchedStream) -> None:
    """What was launched here is ended, and with it the driver, though that cannot be seen from here."""
    watched.platform.add("clicks")
    watched.watch(on_another_machine, lambda: works(watched.home))
    pid = launched(watched.home).pid
    send(signal.SIGSTOP)(watched.home)
    watched.watch(on_another_machine, patience=IMPATIENT)
    watched.check("DriverOutOfReach", names="worker-7", pid=pid, host="worker-7")
    watched.watch(scripted_command)
    assert [alert["kind"] for alert in watched.told] == ["waiting", "recovered"]


@pytest.mark.long
@made("DriverWouldNotEnd")
def test_what_people_are_told_of_a_process_that_cannot_be_killed(
    watched: WatchedStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "DEATH_LIMIT_SECONDS", 1.0)
    watched.platform.add("clicks")
    (watched.platform.home / "behaviour").write_text(f"stat {tmp_path / 'mounted' / 'file'}")
    (tmp_path / "mounted").mkdir()
    with mount_that_hangs(tmp_path / "mounted"):
        watched.watch(scripted_command, patience=IMPATIENT)
        watched.check("DriverWouldNotEnd", names=f"process {launched(watched.home).pid} is still there")
        (watched.platform.home / "behaviour").unlink()
    watched.watch(scripted_command)
    assert [alert["kind"] for alert in watched.told] == ["waiting", "recovered"]


STREAMING_UPDATE = "org/apache/spark/sql/delta/DeltaOperations$StreamingUpdate.class"
TRY_EVAL = "org/apache/spark/sql/catalyst/expressions/TryEval.class"

LATE = """import sys, time
if "pyspark.sql.streaming.transform_with_state_driver_worker" in sys.orig_argv:
    time.sleep(13)
"""


def late_workers(folder: Path) -> dict[str, str]:
    """The variables by which the worker that a query starts with needs longer to connect than Spark waits.

    It is the only one that Spark waits ten seconds for. The others are forked from a daemon that has long been up.
    """
    (folder / "late").mkdir()
    (folder / "late" / "sitecustomize.py").write_text(LATE)
    return {"PYTHONPATH": os.pathsep.join([str(folder / "late"), *filter(None, [os.environ.get("PYTHONPATH")])])}


@dataclass(frozen=True)
class FalseStartToldOfSpark:
    """A stream of clicks with such a `spec`, so `arranged` and in such an `environment`, ends for `cause`."""

    cause: str
    names: str
    spec: dict[str, Any]
    arranged: Callable[[Stage], None] = a_file
    environment: Callable[[Path], dict[str, str]] = nothing


FALSE_STARTS_OF_SPARK = {
    "a name node that is away": FalseStartToldOfSpark(
        "unreachable", "127.0.0.1:1", {"sink": {"path": "hdfs://127.0.0.1:1/lake"}}
    ),
    "an option that is no number": FalseStartToldOfSpark(
        "bad_option",
        "time string: old",
        {"source": clicks_spec()["source"] | {"options": {"maxFileAge": "old"}}},
    ),
    "a table of another stream": FalseStartToldOfSpark("TableOwned", "visits@0123456789ab", {}, table_of_another),
    "no jars of Google's store": FalseStartToldOfSpark(
        "store_jars_missing",
        "GoogleHadoopFileSystem",
        {"source": clicks_spec()["source"] | {"path": "gs://nowhere/feed"}},
    ),
    "Python workers that are late": FalseStartToldOfSpark(
        "python_worker_late", "connect back", {}, environment=late_workers
    ),
    "no Python for workers": FalseStartToldOfSpark(
        "unknown", "/nowhere/python", {}, environment=lambda _: {"PYSPARK_PYTHON": "/nowhere/python"}
    ),
    "Delta has moved a class": FalseStartToldOfSpark(
        "private_door",
        "StreamingUpdate",
        {},
        a_file_for_the_quarantine,
        lambda root: delta_without(root, STREAMING_UPDATE),
    ),
    "Spark has moved a class": FalseStartToldOfSpark(
        "PrivateDoorBroken",
        "TryEval",
        {},
        environment=lambda root: spark_with_less_public(root, "spark-catalyst", TRY_EVAL),
    ),
}


@made(*(start.cause for start in FALSE_STARTS_OF_SPARK.values()))
@pytest.mark.long
@pytest.mark.parametrize("name", FALSE_STARTS_OF_SPARK)
def test_what_people_are_told_of_a_query_that_never_was(name: str, watched: WatchedStream) -> None:
    start = FALSE_STARTS_OF_SPARK[name]
    start.arranged(watched.stage(clicks_spec() | start.spec))
    variables = [f"{name}={value}" for name, value in start.environment(watched.home.platform).items()]
    watched.drive(command=lambda call: ["env", *variables, *real_driver(call)])
    watched.check(start.cause, names=start.names)
    watched.check_status(start.cause)
