"""What may befall a stream on a cluster: it goes on, by the same driver where that could live, and exactly."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import pytest

from sessionizer.control.records.desired_state import DesiredState, read_desired
from sessionizer_demo.local_airflow.api import wait_until
from support.cluster.containers import DRIVER_SECONDS
from support.faults.airflow_faults import has_stopped, wait_for_pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.cluster.cluster_stage import ClusterStage
    from support.processes.live_airflow import Platform
    from support.processes.yarn import Yarn
    from support.stores.hdfs import Hdfs

AWAY_SECONDS = 60.0


@dataclass(frozen=True)
class Cluster:
    hdfs: Hdfs
    yarn: Yarn

    def processes(self, main_class: str) -> list[psutil.Process]:
        """The JVMs, not the shells that start them."""
        return [found for found in self.yarn.processes() if is_jvm_of(main_class, found)]

    def drivers(self) -> list[psutil.Process]:
        return self.processes("org.apache.spark.deploy.yarn.ApplicationMaster")

    def has_one_driver(self) -> bool:
        """For YARN, and of those that run: a node that was given up may have kept one."""
        running = (self.yarn.asked("apps?states=RUNNING").get("apps") or {}).get("app", [])
        return (len(running), len(self.drivers())) == (1, 1)


def is_jvm_of(main_class: str, process: psutil.Process) -> bool:
    try:
        return process.name() == "java" and main_class in process.cmdline()
    except psutil.Error:  # it has just ended
        return False


def kill_drivers_container(cluster: Cluster) -> None:
    """Its JVM and its Python, as YARN does it when it takes too much memory."""
    for master in cluster.drivers():
        for process in (*master.children(recursive=True), master):
            process.kill()


def restart_node_manager(cluster: Cluster) -> None:
    """Its containers live on without it, until YARN has told them that it gave them up."""
    cluster.yarn.node_manager.kill()
    wait_until(lambda: not cluster.yarn.has_node(), 60, "YARN to miss the node")
    cluster.yarn.start()


def kill_executor(cluster: Cluster) -> None:
    executors = cluster.processes("org.apache.spark.executor.YarnCoarseGrainedExecutorBackend")
    assert executors
    for executor in executors:
        executor.kill()


def hdfs_away(cluster: Cluster) -> None:
    cluster.hdfs.kill()
    time.sleep(AWAY_SECONDS)
    cluster.hdfs.start()


def resource_manager_away(cluster: Cluster) -> None:
    cluster.yarn.resource_manager.kill()
    time.sleep(AWAY_SECONDS)
    cluster.yarn.start()


FAULTS: dict[str, tuple[Callable[[Cluster], None], bool | None]] = {
    "the driver's container is killed": (kill_drivers_container, False),
    "the NodeManager is killed and comes back": (restart_node_manager, False),
    "an executor is killed": (kill_executor, True),
    "HDFS is away for a minute": (hdfs_away, None),
    "the ResourceManager is away for a minute": (resource_manager_away, True),
}
"""Whether the same driver goes on; None: it may, as patient as Hadoop's client is."""


@pytest.fixture
def working(platform: Platform, clicks: ClusterStage) -> Platform:
    """The stream, at work: a driver that has nothing to do has no batch to show."""
    if read_desired(platform.home).state is DesiredState.STOPPED:
        platform.run_now(f"{platform.stream}.start")
    platform.api.unpause(platform.dag)
    clicks.bring(1)
    platform.wait_for_driver(seconds=DRIVER_SECONDS)
    clicks.wait_until_all_is_in()
    return platform


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_the_stream_goes_on_after(
    fault: str, working: Platform, clicks: ClusterStage, running_hdfs: Hdfs, running_yarn: Yarn
) -> None:
    inflict, same_driver = FAULTS[fault]
    uid = working.wait_for_driver(seconds=DRIVER_SECONDS)
    clicks.bring(1)
    cluster = Cluster(running_hdfs, running_yarn)
    inflict(cluster)
    clicks.bring(1)
    if same_driver is False:
        working.wait_for_driver(other_than=uid, seconds=DRIVER_SECONDS)
    clicks.wait_until_all_is_in()
    if same_driver:
        assert working.working_uid() == uid
    wait_until(cluster.has_one_driver, 120, "one driver, and no other")


@pytest.mark.long
def test_of_all_that_came_nothing_is_lost_and_nothing_is_there_twice(working: Platform, clicks: ClusterStage) -> None:
    """After all the faults that ran before."""
    uid = working.wait_for_driver(seconds=DRIVER_SECONDS)
    working.mark_failed()
    wait_for_pause(working)
    wait_until(lambda: has_stopped(working, uid), DRIVER_SECONDS, "the driver to stop")
    clicks.assert_exact()
