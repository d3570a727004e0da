"""Of streams on a cluster, what the default run sees: one lives and ends there; one that gets no room is taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.launch_record import read_launch
from sessionizer_airflow.launching.launcher import DriverTraces
from sessionizer_demo.local_airflow.api import wait_until
from support.cluster.containers import DRIVER_SECONDS, STOPPED_SECONDS, executors_see_no_control, states
from support.cluster.site import HERE
from support.faults.airflow_faults import has_stopped

if TYPE_CHECKING:
    from sessionizer_airflow.supervision.act import Supervisor
    from support.cluster.cluster_stage import ClusterStage
    from support.processes.live_airflow import Platform
    from support.processes.yarn import Yarn


def test_a_stream_lives_in_yarn_and_ends_when_it_is_stopped(
    clicks: ClusterStage, running_yarn: Yarn, platform: Platform
) -> None:
    clicks.bring(4)
    platform.api.unpause(platform.dag)
    uid = platform.wait_for_driver(seconds=DRIVER_SECONDS)
    executors_see_no_control(platform, running_yarn)
    platform.wait_for_watch()
    clicks.wait_until_all_is_in()
    assert states(running_yarn, uid) == ["RUNNING"]
    platform.run_now(f"{platform.stream}.stop")
    wait_until(lambda: has_stopped(platform, uid), STOPPED_SECONDS, "the driver to stop")
    wait_until(lambda: states(running_yarn, uid) == ["FINISHED"], STOPPED_SECONDS, "the end of the application")
    clicks.assert_exact()


@pytest.mark.parametrize("site", [HERE], indirect=True)
def test_a_driver_in_a_full_queue_is_taken_out_of_it(supervisor: Supervisor, yarn: Yarn) -> None:
    yarn.node_manager.kill()
    supervisor.settle()
    launch = read_launch(supervisor.home)
    assert launch is not None
    uid = launch.uid
    wait_until(lambda: states(yarn, uid) == ["ACCEPTED"], STOPPED_SECONDS, "the application in its queue")
    seen = supervisor.drivers.launcher.look_for(DriverTraces(uid=uid, launch=launch))
    assert (seen.alive, seen.cause.name if seen.cause else None) == (True, "no_resources")
    supervisor.drivers.launcher.end_by_force(DriverTraces(uid=uid, launch=launch))
    assert states(yarn, uid) == ["KILLED"]
