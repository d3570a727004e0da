"""A driver that Airflow starts on its own machine: what the process really has, and who may read its log."""

import json
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.providers.apache.spark.hooks import spark_submit as provider_hooks

from sessionizer.control.lease import read_lease
from sessionizer.control.records.process_records import EXIT_FILE, LaunchRecord, Vacancy, is_alive
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.driver_environment import DRIVER_MEMORY
from sessionizer.launch.installation import PYTHON_VARIABLE
from sessionizer_airflow.launching.cluster import ConnectionLauncher, run_program
from sessionizer_airflow.launching.local import LocalLauncher
from sessionizer_airflow.launching.spark_submit import DriverCall, job_environment
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob
from sessionizer_airflow.project import Folders, Project
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.decide import Adopt, StandBy, Wait
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.watch import look_at
from support.expected.driver_statuses import Heard, launched, recorded, works
from support.faults.bad_clicks import KAFKA, changed
from support.places import known
from support.processes import fake_cluster
from support.processes.ports import eventually

WAITS = [sys.executable, "-c", "import time; print('started', flush=True); time.sleep(600)"]
SECRETS = {
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://airflow:hunter2@db/airflow",
    "AIRFLOW__CORE__FERNET_KEY": "hunter2",
    "AIRFLOW_CONN_WAREHOUSE": "hunter2",
    "SESSIONIZER_NOTIFIER_ARGUMENTS": '{"token": "hunter2"}',
    "DATABASE_URL": "postgresql://somebody:hunter2@db/else",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
}


@pytest.fixture
def started_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchRecord]:
    for name, value in {**SECRETS, "VISITS_JAAS": "login", "AZURE_TENANT_ID": "tenant"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SESSIONIZER_DRIVER_ENVIRONMENT", "AZURE_*")
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    streams = tmp_path / "streams"
    streams.mkdir()
    source = KAFKA | {"options_from_environment": {"kafka.sasl.jaas.config": "VISITS_JAAS"}}
    (streams / "visits.yaml").write_text(yaml.safe_dump(changed({"source": source})))
    home = StreamHome.of(tmp_path / "home", "visits")
    call = DriverCall(stream="visits", uid="u1", folders=Folders(home=tmp_path / "home", streams=streams))
    launch = LocalLauncher(lambda _: WAITS).launch(home, call)
    yield launch
    os.killpg(known(launch.pid), signal.SIGKILL)


def environment_of(launch: LaunchRecord) -> dict[str, str]:
    pairs = Path(f"/proc/{launch.pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if pair)


def test_it_has_none_of_what_is_airflows(started_here: LaunchRecord) -> None:
    found = environment_of(started_here)
    assert not found.keys() & SECRETS.keys()
    assert "hunter2" not in "".join(found.values())
    assert not [name for name in found if "AIRFLOW" in name]


def test_it_has_what_its_spec_and_the_installation_name(started_here: LaunchRecord) -> None:
    found = environment_of(started_here)
    assert (found["VISITS_JAAS"], found["AZURE_TENANT_ID"]) == ("login", "tenant")
    assert {"PATH", "PYTHONPATH", "PYSPARK_PYTHON", "SESSIONIZER_DRIVER_LOG"} <= found.keys()


def test_it_has_a_limit_of_the_heap_unless_the_site_has_one(
    started_here: LaunchRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert environment_of(started_here)["SPARK_DRIVER_MEMORY"] == DRIVER_MEMORY["SPARK_DRIVER_MEMORY"]
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "6g")
    assert job_environment(os.environ)["SPARK_DRIVER_MEMORY"] == "6g"


def test_its_log_is_not_for_everybody(started_here: LaunchRecord) -> None:
    assert stat.S_IMODE(Path(started_here.log).stat().st_mode) == 0o640


# the provider leaves the pipe to the program that it has started open

KEY = "correct-horse-battery"
AIRFLOWS_OWN = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL")
PROGRAM = """#!{python}
import json, os, sys
seen = {{"argv": sys.argv, "environment": dict(os.environ)}}
open({place!r} + ".part", "w").write(json.dumps(seen))
os.rename({place!r} + ".part", {place!r})
"""


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, and where it leaves what it was started with."""
    place, program = tmp_path / "seen.json", tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable, place=str(place)))
    program.chmod(0o755)
    # the programs beside the drivers' Python are the first on a driver's PATH
    python = program.with_name("python")
    python.symlink_to(sys.executable)
    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    lake = {"conn_type": "aws", "login": "AK", "password": KEY, "extra": {"endpoint_url": "http://s3:7070"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))
    monkeypatch.setenv("SESSIONIZER_STORE_CONNECTION", "lake")
    for name in AIRFLOWS_OWN:
        monkeypatch.setenv(name, "of Airflow itself")
    return place


def assert_given(place: Path) -> None:
    eventually(place.exists, 60, "a started program")
    seen: dict[str, Any] = json.loads(place.read_text())
    assert {name: seen["environment"].get(name) for name in AIRFLOWS_OWN} == {
        "AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": KEY, "AWS_ENDPOINT_URL": "http://s3:7070",
    }  # fmt: skip
    assert KEY not in str(seen["argv"])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_driver_gets_the_keys_of_the_connection(project: Project, spark_submit: Path) -> None:
    home = StreamHome.of(project.home, "clicks")
    launch = ConnectionLauncher(project=project).launch(home, DriverCall(stream="clicks", uid="u1", folders=project))
    assert_given(spark_submit)
    assert KEY not in str(launch)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_job_gets_the_keys_of_the_connection(
    project: Project, spark_submit: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = SparkBatchJob(name="report", arguments=("report",), project=project, task_id="report")
    task.execute({})
    assert_given(spark_submit)
    rendered = {name: getattr(task, name) for name in task.template_fields}
    for place in (rendered, vars(task), caplog.text):
        assert KEY not in str(place)


CONNECTION = {
    "conn_type": "spark",
    "host": "k8s://https://kubernetes:6443",
    "extra": {"deploy-mode": "cluster", "namespace": "streams"},
}
PATIENT_ENOUGH = SupervisionPolicy(
    startup_grace_ms=120_000, stale_limit_ms=60_000, first_backoff_ms=300, longest_backoff_ms=1_000, restart_budget=2
)
NO_WAIT_FOR_STARTS = replace(PATIENT_ENOUGH, startup_grace_ms=2_000)
NO_WAIT_FOR_BEATS = replace(PATIENT_ENOUGH, stale_limit_ms=2_500)
NewSupervisor = Callable[..., Supervisor]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    state, programs = tmp_path / "cluster", tmp_path / "programs"
    state.mkdir()
    programs.mkdir()
    # It finds its packages without what the launcher keeps from it.
    stand_in = tmp_path / "stand_in" / "spark-submit"
    stand_in.parent.mkdir()
    stand_in.symlink_to(fake_cluster.__file__)
    program = programs / "spark-submit"
    found_in = os.environ["PYTHONPATH"]
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{found_in}" exec "{sys.executable}" "{stand_in}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("FAKE_CLUSTER", str(state))
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setattr(provider_hooks, "kube_client", object(), raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(CONNECTION))
    yield state
    for file in state.glob("*.pid"):
        if int(file.read_text()):
            fake_cluster.end(int(file.read_text()), state)


@pytest.fixture
def in_cluster(cluster: Path, home: StreamHome, tmp_path: Path, said: Heard) -> NewSupervisor:
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "delta.jar").touch()
    project = Project(
        application=Path("/shared/jobs/main.py"), streams=Path("/shared/streams"), jars=jars, home=tmp_path
    )

    def build(policy: SupervisionPolicy = PATIENT_ENOUGH) -> Supervisor:
        return Supervisor(
            home=home,
            folders=Folders(home=tmp_path, streams=project.streams),
            launcher=ConnectionLauncher(project=project),
            policy=policy,
            say=said,
        )

    return build


def launch_and_wait(supervisor: Supervisor) -> str:
    decision = supervisor.settle()
    assert isinstance(decision, Adopt)
    eventually(lambda: works(supervisor.home, decision.uid))
    return decision.uid


def pid_of(cluster: Path, home: StreamHome) -> int:
    return int((cluster / f"{launched(home).submission}.pid").read_text())


def replaced(in_cluster: NewSupervisor, home: StreamHome, uid: str, policy: SupervisionPolicy = PATIENT_ENOUGH) -> bool:
    in_cluster(policy).settle()
    return launched(home).uid != uid


def test_driver_on_another_host_is_watched_and_stopped(in_cluster: NewSupervisor, home: StreamHome) -> None:
    uid = launch_and_wait(in_cluster())
    assert in_cluster().settle() == Adopt(uid, "RUNNING")
    lease = known(read_lease(home))
    assert lease.host == "worker-7"
    write_desired(home, DesiredState.STOPPED, by="ops", why="")
    assert isinstance(in_cluster().settle(), StandBy)
    eventually(lambda: EXIT_FILE.of(home, uid).read())
    assert not look_at(home, PATIENT_ENOUGH).call


@pytest.mark.long
def test_killed_driver_is_replaced_with_the_word_of_the_cluster(
    in_cluster: NewSupervisor, home: StreamHome, cluster: Path
) -> None:
    uid = launch_and_wait(in_cluster())
    fake_cluster.end(pid_of(cluster, home), cluster)
    eventually(lambda: look_at(home, PATIENT_ENOUGH).call)
    eventually(lambda: replaced(in_cluster, home, uid))
    assert "pod is Failed" in recorded(home).last_failure


def test_frozen_driver_is_fenced_then_killed_by_the_cluster(
    in_cluster: NewSupervisor,
    home: StreamHome,
    cluster: Path,
    golden: Callable[[str, str], None],
    tmp_path: Path,
) -> None:
    uid = launch_and_wait(in_cluster())
    pid = pid_of(cluster, home)
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: look_at(home, NO_WAIT_FOR_BEATS).call)
    in_cluster(NO_WAIT_FOR_BEATS).settle()
    assert not fake_cluster.lives(pid)
    lines = (cluster / "calls").read_text().splitlines(keepends=True)
    next_driver = next((at for at, line in enumerate(lines) if "--uid" in line and uid not in line), None)
    calls = "".join(lines[:next_driver]).replace(uid, "$UID").replace(str(tmp_path), "$HOME")
    golden("cluster_calls/kubernetes.txt", calls)
    eventually(lambda: replaced(in_cluster, home, uid))


def test_refused_submission_is_noticed_at_once(in_cluster: NewSupervisor, home: StreamHome, cluster: Path) -> None:
    (cluster / "mood").write_text("refuses")
    in_cluster().settle()
    uid = launched(home).uid
    eventually(lambda: look_at(home, PATIENT_ENOUGH).call, seconds=100)
    assert isinstance(in_cluster().settle(), Wait)
    (cluster / "mood").write_text("steady")
    eventually(lambda: replaced(in_cluster, home, uid))


@pytest.mark.long
def test_driver_that_stays_in_the_queue_is_taken_out_of_it(
    in_cluster: NewSupervisor, home: StreamHome, cluster: Path
) -> None:
    (cluster / "mood").write_text("full")
    in_cluster().settle()
    waiting = cluster / f"{launched(home).submission}.pid"
    eventually(waiting.exists)
    eventually(lambda: look_at(home, NO_WAIT_FOR_STARTS).call)
    in_cluster(NO_WAIT_FOR_STARTS).settle()
    assert not waiting.exists()
    assert "is Pending" in recorded(home).last_failure


@pytest.mark.long
def test_silent_cluster_does_not_keep_the_stream_down(
    in_cluster: NewSupervisor, home: StreamHome, cluster: Path, said: Heard
) -> None:
    uid = launch_and_wait(in_cluster())
    os.kill(pid_of(cluster, home), signal.SIGSTOP)
    (cluster / "mood").write_text("silent")
    eventually(lambda: look_at(home, NO_WAIT_FOR_BEATS).call)
    eventually(lambda: replaced(in_cluster, home, uid, NO_WAIT_FOR_BEATS))
    lease = known(read_lease(home))
    assert lease.uid != uid or lease.vacancy is Vacancy.FENCED
    (warning,) = [line for line in said if "may still run, but can write nothing more" in line]
    assert "Connection refused" in warning


def test_no_secret_reaches_a_command_line(
    in_cluster: NewSupervisor, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "s3cr3t-of-the-broker")
    launch_and_wait(in_cluster())
    assert "s3cr3t" not in (cluster / "calls").read_text()


def test_submission_that_hangs_is_ended_before_the_cluster_is_asked(
    in_cluster: NewSupervisor, home: StreamHome, cluster: Path
) -> None:
    (cluster / "mood").write_text("hangs")
    in_cluster().settle()
    launch = launched(home)
    assert launch.process is not None
    assert is_alive(launch.process)
    eventually((cluster / "calls").exists)
    eventually(lambda: look_at(home, NO_WAIT_FOR_STARTS).call)
    (cluster / "mood").write_text("steady")
    eventually(lambda: replaced(in_cluster, home, launch.uid, NO_WAIT_FOR_STARTS))
    assert is_alive(launch.process) is False


def test_what_a_program_prints_in_another_encoding_is_an_answer(tmp_path: Path) -> None:
    program = tmp_path / "status"
    program.write_text("#!/bin/sh\nprintf 'phase: Running (caf\\351)\\n'\n")
    program.chmod(0o755)
    assert run_program([str(program)]).startswith("phase: Running (caf")
