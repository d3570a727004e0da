"""The supervisor over drivers that a real YARN runs: launched, asked after, read and killed."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.lease.ledger import read_lease
from sessionizer.control.records.desired_state import DesiredState, write_desired
from sessionizer.control.records.exit_record import read_exit
from sessionizer.control.records.heartbeat import read_heartbeat
from sessionizer.control.records.launch_record import read_launch
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.launching.argv import Folders
from sessionizer_airflow.launching.by_connection import ConnectionLauncher
from sessionizer_airflow.launching.launcher import DriverTraces
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.decide import Adopt, StandBy
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.watch import look_at
from support.cluster.site import APART, DRIVERS_HOST, HERE
from support.expected.heard import Heard
from support.expected.supervision_records import recorded
from support.places import REPOSITORY, SUPPORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.cluster.site import Site
    from support.processes.yarn import Yarn


PATIENT_ENOUGH = SupervisionPolicy(
    startup_grace_ms=90_000, stale_limit_ms=4_000, first_backoff_ms=300, longest_backoff_ms=1_000, restart_budget=3
)


@pytest.fixture
def supervisor(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """Its drivers do without Spark's work; the application that brings them is real."""
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    application = tmp_path / "application"
    application.mkdir()
    (application / "main.py").symlink_to(SUPPORT / "processes" / "scripted_driver.py")
    (application / "sessionizer").symlink_to(REPOSITORY / "jobs" / "sessionizer")
    project = Project(application=application / "main.py", streams=site.platform, jars=tmp_path, home=site.platform)
    found = Supervisor(
        stream="clicks",
        home=StreamHome.of(site.platform, "clicks"),
        folders=Folders(home=site.platform, streams=site.platform),
        launcher=ConnectionLauncher(project=project),
        policy=PATIENT_ENOUGH,
        say=Heard(),
    )
    yield found
    launch = read_launch(found.home)
    if launch is not None:
        found.launcher.end_by_force(DriverTraces(uid=launch.uid, launch=launch))


def eventually(condition: Callable[[], object], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.2)


def working(supervisor: Supervisor) -> str:
    """The driver that is there once one works."""
    eventually(lambda: works(supervisor.home))
    launch = read_launch(supervisor.home)
    assert launch is not None
    return launch.uid


def works(home: StreamHome) -> bool:
    beat, launch = read_heartbeat(home), read_launch(home)
    return beat is not None and launch is not None and beat.uid == launch.uid and beat.batch_id is not None


def replaced(supervisor: Supervisor, uid: str) -> bool:
    supervisor.settle()
    launch = read_launch(supervisor.home)
    return launch is not None and launch.uid != uid


def pid_of(supervisor: Supervisor) -> int:
    lease = read_lease(supervisor.home)
    assert lease is not None
    assert lease.pid is not None
    return lease.pid


def states(yarn: Yarn, uid: str) -> list[str]:
    apps = yarn.asked(f"apps?applicationTags={uid}")["apps"] or {}
    return [app["state"] for app in apps.get("app", [])]


def heard(supervisor: Supervisor, words: str) -> list[str]:
    assert isinstance(supervisor.say, Heard)
    return [line for line in supervisor.say if words in line]


@pytest.mark.parametrize("site", [HERE, pytest.param(APART, marks=pytest.mark.long)], indirect=True)
def test_a_driver_is_watched_killed_when_it_hangs_replaced_and_stopped(
    supervisor: Supervisor, yarn: Yarn, site: Site
) -> None:
    assert isinstance(supervisor.settle(), Adopt)
    uid = working(supervisor)
    lease = read_lease(supervisor.home)
    assert lease is not None
    assert (lease.host == DRIVERS_HOST) == site.apart, "whether somebody here can see its process"
    eventually(lambda: states(yarn, uid) == ["RUNNING"])
    assert supervisor.settle() == Adopt(uid, "RUNNING")
    os.kill(pid_of(supervisor), signal.SIGSTOP)
    eventually(lambda: look_at(supervisor.home, PATIENT_ENOUGH).call)
    eventually(lambda: replaced(supervisor, uid))
    assert states(yarn, uid) == ["KILLED"]
    assert heard(supervisor, f"{uid} | I am the driver"), "its own last words"
    second = working(supervisor)
    write_desired(supervisor.home, DesiredState.STOPPED, by="ops", why="")
    assert isinstance(supervisor.settle(), StandBy)
    eventually(lambda: read_exit(supervisor.home, second))
    eventually(lambda: states(yarn, second) == ["FINISHED"])


@pytest.mark.long
def test_a_killed_driver_is_replaced_with_the_word_of_yarn_and_a_silent_yarn_keeps_no_stream_down(
    supervisor: Supervisor, yarn: Yarn
) -> None:
    supervisor.settle()
    uid = working(supervisor)
    os.kill(pid_of(supervisor), signal.SIGKILL)
    eventually(lambda: look_at(supervisor.home, PATIENT_ENOUGH).call)
    eventually(lambda: replaced(supervisor, uid))
    assert "is FINISHED (FAILED): User application exited with status 137" in recorded(supervisor.home).last_failure
    second = working(supervisor)
    launched = read_launch(supervisor.home)
    yarn.resource_manager.kill()
    os.kill(pid_of(supervisor), signal.SIGSTOP)
    eventually(lambda: look_at(supervisor.home, PATIENT_ENOUGH).call)
    eventually(lambda: replaced(supervisor, second))
    (warning,) = heard(supervisor, "may still be there, though it can write nothing more")
    assert f"curl -X GET http://{yarn.web}/ws/v1/cluster/apps" in warning
    assert "Connection refused" in warning
    yarn.start()
    supervisor.launcher.end_by_force(DriverTraces(uid=second, launch=launched))
    assert states(yarn, second) == ["KILLED"]


@pytest.mark.parametrize("site", [HERE], indirect=True)
def test_a_driver_in_a_full_queue_is_taken_out_of_it(supervisor: Supervisor, yarn: Yarn) -> None:
    yarn.node_manager.kill()
    supervisor.settle()
    launch = read_launch(supervisor.home)
    assert launch is not None
    eventually(lambda: states(yarn, launch.uid) == ["ACCEPTED"])
    seen = supervisor.launcher.look_for(DriverTraces(uid=launch.uid, launch=launch))
    assert (seen.alive, seen.cause.name if seen.cause else None) == (True, "no_resources")
    supervisor.launcher.end_by_force(DriverTraces(uid=launch.uid, launch=launch))
    assert states(yarn, launch.uid) == ["KILLED"]
