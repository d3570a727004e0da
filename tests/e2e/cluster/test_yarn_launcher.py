"""The supervisor over drivers that a real YARN runs: launched, asked after, read and killed."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.lease import read_lease
from sessionizer.control.records.desired_state import DesiredState, write_desired
from sessionizer.control.records.process_records import EXIT_FILE, read_launch
from sessionizer_airflow.launching.launcher import DriverTraces
from sessionizer_airflow.supervision.decide import Adopt, StandBy
from sessionizer_airflow.supervision.watch import look_at
from support.cluster.containers import states
from support.cluster.site import APART, DRIVERS_HOST, HERE
from support.cluster.supervisors import PATIENT_ENOUGH, newest_driver_works
from support.expected.heard import Heard
from support.expected.supervision_records import recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer_airflow.supervision.act import Supervisor
    from support.cluster.site import Site
    from support.processes.yarn import Yarn

pytestmark = pytest.mark.long


def eventually(condition: Callable[[], object], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.2)


def working(supervisor: Supervisor) -> str:
    """The driver that is there once one works."""
    eventually(lambda: newest_driver_works(supervisor.home))
    launch = read_launch(supervisor.home)
    assert launch is not None
    return launch.uid


def replaced(supervisor: Supervisor, uid: str) -> bool:
    supervisor.settle()
    launch = read_launch(supervisor.home)
    return launch is not None and launch.uid != uid


def pid_of(supervisor: Supervisor) -> int:
    lease = read_lease(supervisor.home)
    assert lease is not None
    assert lease.pid is not None
    return lease.pid


def heard(supervisor: Supervisor, words: str) -> list[str]:
    assert isinstance(supervisor.say, Heard)
    return [line for line in supervisor.say if words in line]


@pytest.mark.parametrize("site", [HERE, APART], indirect=True)
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
    eventually(lambda: EXIT_FILE.of(supervisor.home, second).read())
    eventually(lambda: states(yarn, second) == ["FINISHED"])


def test_a_killed_driver_is_replaced_with_the_word_of_yarn_and_a_silent_yarn_keeps_no_stream_down(
    supervisor: Supervisor, yarn: Yarn
) -> None:
    supervisor.settle()
    uid = working(supervisor)
    os.kill(pid_of(supervisor), signal.SIGKILL)
    eventually(lambda: look_at(supervisor.home, PATIENT_ENOUGH).call)
    eventually(lambda: replaced(supervisor, uid))
    assert "exited with status 137" in recorded(supervisor.home).last_failure
    second = working(supervisor)
    launched = read_launch(supervisor.home)
    yarn.resource_manager.kill()
    os.kill(pid_of(supervisor), signal.SIGSTOP)
    eventually(lambda: look_at(supervisor.home, PATIENT_ENOUGH).call)
    eventually(lambda: replaced(supervisor, second))
    (warning,) = heard(supervisor, "may still run, but can write nothing more")
    assert f"curl -X GET http://{yarn.web}/ws/v1/cluster/apps" in warning
    assert "Connection refused" in warning
    yarn.start()
    supervisor.drivers.launcher.end_by_force(DriverTraces(uid=second, launch=launched))
    assert states(yarn, second) == ["KILLED"]
