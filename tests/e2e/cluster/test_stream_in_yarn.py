"""A stream whose driver and executors are containers of a real YARN, its data in HDFS, under a running Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer_demo.local_airflow.api import wait_until
from support.cluster.containers import DRIVER_SECONDS, STOPPED_SECONDS, executors_see_no_control, states
from support.faults.airflow_faults import has_stopped, wait_for_pause

if TYPE_CHECKING:
    from support.cluster.cluster_stage import ClusterStage
    from support.processes.live_airflow import Platform
    from support.processes.yarn import Yarn


@pytest.mark.long
def test_a_stream_lives_in_yarn_and_hdfs_as_on_one_machine(
    platform: Platform, clicks: ClusterStage, running_yarn: Yarn
) -> None:
    clicks.bring(2)
    platform.api.unpause(platform.dag)
    first = platform.wait_for_driver(seconds=DRIVER_SECONDS)
    platform.wait_for_watch()
    clicks.wait_until_all_is_in()
    executors_see_no_control(platform.installation.platform_home, running_yarn)
    assert states(running_yarn, first) == ["RUNNING"]

    platform.clear()
    wait_until(lambda: has_stopped(platform, first), STOPPED_SECONDS, "the first driver to stop")
    clicks.bring(2)  # a driver that has nothing to do has no batch to show
    second = platform.wait_for_driver(other_than=first, seconds=DRIVER_SECONDS)
    clicks.wait_until_all_is_in()

    platform.run_now(f"{platform.stream}.stop")
    wait_until(lambda: has_stopped(platform, second), STOPPED_SECONDS, "the second driver to stop")
    wait_until(lambda: states(running_yarn, second) == ["FINISHED"], STOPPED_SECONDS, "the end of the application")

    platform.run_now(f"{platform.stream}.start")
    third = platform.wait_for_launch(other_than=second, seconds=STOPPED_SECONDS)
    platform.mark_failed()  # also of one that has only just been submitted
    wait_for_pause(platform)
    wait_until(lambda: has_stopped(platform, third), DRIVER_SECONDS, "the third driver to stop")
    clicks.assert_exact()
