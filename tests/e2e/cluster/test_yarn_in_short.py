"""Of streams on a cluster, what the default run sees: one lives and ends there; one that gets no room is taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.desired_state import DesiredState, write_desired
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, read_launch
from sessionizer_airflow.launching.launcher import DriverTraces
from sessionizer_airflow.supervision.decide import Adopt, StandBy
from sessionizer_demo.local_airflow.api import wait_until
from support.cluster.containers import DRIVER_SECONDS, STOPPED_SECONDS, executors_see_no_control, states
from support.cluster.site import HERE
from support.cluster.supervisors import newest_driver_works, supervisor_of

if TYPE_CHECKING:
    from sessionizer_airflow.supervision.act import Supervisor
    from support.cluster.cluster_stage import ClusterStage
    from support.processes.yarn import Yarn


def test_a_stream_lives_in_yarn_and_ends_when_it_is_stopped(clicks: ClusterStage, running_yarn: Yarn) -> None:
    """The test does without Airflow, whose start takes longer than all of this. `test_stream_in_yarn` has one."""
    clicks.bring(4)
    with supervisor_of(clicks, running_yarn) as supervisor:
        home = supervisor.home
        supervisor.settle()
        wait_until(lambda: newest_driver_works(home), DRIVER_SECONDS, "a driver that works")
        launch = read_launch(home)
        assert launch is not None
        executors_see_no_control(clicks.stage.home, running_yarn)
        clicks.wait_until_all_is_in()
        adopted = supervisor.settle()
        assert isinstance(adopted, Adopt)
        assert adopted.uid == launch.uid
        write_desired(home, DesiredState.STOPPED, by="a test", why="")
        assert isinstance(supervisor.settle(), StandBy)
        wait_until(lambda: states(running_yarn, launch.uid) == ["FINISHED"], STOPPED_SECONDS, "its application's end")
        ended = EXIT_FILE.of(home, launch.uid).read()
        assert ended is not None
        assert ended.outcome is ExitOutcome.STOPPED
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
