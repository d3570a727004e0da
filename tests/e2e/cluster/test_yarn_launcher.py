"""The supervisor over drivers that a real YARN runs: launched, asked after, read and killed."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]
import pytest
from upath import UPath

from sessionizer.checkpoint.files import files_of
from sessionizer.control.lease import read_lease
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, read_launch
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.home.data_files import write_data_text
from sessionizer.home.roots import folder_at, uri_of
from sessionizer_airflow.launching.local import DriverTraces
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.decide import Adopt, StandBy
from sessionizer_airflow.supervision.watch import look_at
from sessionizer_demo.local_airflow.api import wait_until
from support.cluster.site import (
    APART,
    DRIVER_SECONDS,
    DRIVERS_HOST,
    HERE,
    PATIENT_ENOUGH,
    STOPPED_SECONDS,
    ClusterStage,
    Site,
    executors_see_no_control,
    is_driver,
    is_executor,
    states,
    supervisor_of,
)
from support.expected.driver_statuses import Heard, launched, recorded, works
from support.places import known
from support.processes.hadoop import Hdfs, Yarn
from support.processes.live_airflow import Platform
from support.processes.ports import eventually


def working(supervisor: Supervisor) -> str:
    eventually(lambda: works(supervisor.home))
    return launched(supervisor.home).uid


def replaced(supervisor: Supervisor, uid: str) -> bool:
    supervisor.settle()
    launch = read_launch(supervisor.home)
    return launch is not None and launch.uid != uid


def pid_of(supervisor: Supervisor) -> int:
    return known(known(read_lease(supervisor.home)).pid)


def heard(supervisor: Supervisor, words: str) -> list[str]:
    assert isinstance(supervisor.say, Heard)
    return [line for line in supervisor.say if words in line]


@pytest.mark.long
@pytest.mark.parametrize("site", [HERE, APART], indirect=True)
def test_a_driver_is_watched_killed_when_it_hangs_replaced_and_stopped(
    supervisor: Supervisor, yarn: Yarn, site: Site
) -> None:
    assert isinstance(supervisor.settle(), Adopt)
    uid = working(supervisor)
    lease = known(read_lease(supervisor.home))
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


@pytest.mark.long
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
    launch = read_launch(supervisor.home)
    yarn.resource_manager.kill()
    os.kill(pid_of(supervisor), signal.SIGSTOP)
    eventually(lambda: look_at(supervisor.home, PATIENT_ENOUGH).call)
    eventually(lambda: replaced(supervisor, second))
    (warning,) = heard(supervisor, "may still run, but can write nothing more")
    assert f"curl -X GET http://{yarn.web}/ws/v1/cluster/apps" in warning
    assert "Connection refused" in warning
    yarn.start()
    supervisor.launcher.end_by_force(DriverTraces(uid=second, launch=launch))
    assert states(yarn, second) == ["KILLED"]


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
    platform.wait_until_stopped(first, STOPPED_SECONDS)
    clicks.bring(2)  # a driver that has nothing to do has no batch to show
    second = platform.wait_for_driver(other_than=first, seconds=DRIVER_SECONDS)
    clicks.wait_until_all_is_in()

    platform.run_now(f"{platform.stream}.stop")
    platform.wait_until_stopped(second, STOPPED_SECONDS)
    wait_until(lambda: states(running_yarn, second) == ["FINISHED"], STOPPED_SECONDS, "the end of the application")

    platform.run_now(f"{platform.stream}.start")
    third = platform.wait_for_launch(other_than=second, seconds=STOPPED_SECONDS)
    platform.mark_failed()  # also of one that has only just been submitted
    platform.wait_for_pause()
    platform.wait_until_stopped(third, DRIVER_SECONDS)
    clicks.assert_exact()


@pytest.mark.long
def test_a_stream_lives_in_yarn_and_ends_when_it_is_stopped(clicks: ClusterStage, running_yarn: Yarn) -> None:
    """The test does without Airflow. `make test` has an application in a queue of the same YARN."""
    clicks.bring(4)
    with supervisor_of(clicks, running_yarn) as supervisor:
        home = supervisor.home
        supervisor.settle()
        wait_until(lambda: works(home), DRIVER_SECONDS, "a driver that works")
        launch = launched(home)
        executors_see_no_control(clicks.stage.home, running_yarn)
        clicks.wait_until_all_is_in()
        adopted = supervisor.settle()
        assert isinstance(adopted, Adopt)
        assert adopted.uid == launch.uid
        write_desired(home, DesiredState.STOPPED, by="a test", why="")
        assert isinstance(supervisor.settle(), StandBy)
        wait_until(lambda: states(running_yarn, launch.uid) == ["FINISHED"], STOPPED_SECONDS, "its application's end")
        assert known(EXIT_FILE.of(home, launch.uid).read()).outcome is ExitOutcome.STOPPED
    clicks.assert_exact()


@pytest.mark.parametrize("site", [HERE], indirect=True)
def test_a_driver_in_a_full_queue_is_taken_out_of_it(supervisor: Supervisor, yarn: Yarn) -> None:
    yarn.node_manager.kill()
    supervisor.settle()
    launch = launched(supervisor.home)
    uid = launch.uid
    wait_until(lambda: states(yarn, uid) == ["ACCEPTED"], STOPPED_SECONDS, "the application in its queue")
    seen = supervisor.launcher.look_for(DriverTraces(uid=uid, launch=launch))
    assert (seen.alive, seen.cause.name if seen.cause else None) == (True, "no_resources")
    supervisor.launcher.end_by_force(DriverTraces(uid=uid, launch=launch))
    assert states(yarn, uid) == ["KILLED"]


@dataclass(frozen=True)
class Cluster:
    hdfs: Hdfs
    yarn: Yarn

    def drivers(self) -> list[psutil.Process]:
        return [found for found in self.yarn.processes() if is_driver(found)]

    def has_one_driver(self) -> bool:
        """For YARN, and of those that run: a node that was given up may have kept one."""
        running = (self.yarn.asked("apps?states=RUNNING").get("apps") or {}).get("app", [])
        return (len(running), len(self.drivers())) == (1, 1)


def kill_drivers_container(cluster: Cluster) -> None:
    for master in cluster.drivers():
        for process in (*master.children(recursive=True), master):
            process.kill()


def restart_node_manager(cluster: Cluster) -> None:
    """Its containers live on without it, until YARN has told them that it gave them up."""
    cluster.yarn.node_manager.kill()
    wait_until(lambda: not cluster.yarn.has_node(), 60, "YARN to miss the node")
    cluster.yarn.start()


def kill_executor(cluster: Cluster) -> None:
    executors = [found for found in cluster.yarn.processes() if is_executor(found)]
    assert executors
    for executor in executors:
        executor.kill()


def hdfs_away(cluster: Cluster) -> None:
    cluster.hdfs.kill()
    time.sleep(60)
    cluster.hdfs.start()


def resource_manager_away(cluster: Cluster) -> None:
    cluster.yarn.resource_manager.kill()
    time.sleep(60)
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
def stream(platform: Platform, clicks: ClusterStage) -> Platform:
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
    fault: str, stream: Platform, clicks: ClusterStage, running_hdfs: Hdfs, running_yarn: Yarn
) -> None:
    inflict, same_driver = FAULTS[fault]
    uid = stream.wait_for_driver(seconds=DRIVER_SECONDS)
    clicks.bring(1)
    cluster = Cluster(running_hdfs, running_yarn)
    inflict(cluster)
    clicks.bring(1)
    if same_driver is False:
        stream.wait_for_driver(other_than=uid, seconds=DRIVER_SECONDS)
    clicks.wait_until_all_is_in()
    if same_driver:
        assert stream.working_uid() == uid
    wait_until(cluster.has_one_driver, 120, "one driver, and no other")


@pytest.mark.long
def test_of_all_that_came_nothing_is_lost_and_nothing_is_there_twice(stream: Platform, clicks: ClusterStage) -> None:
    """After all the faults that ran before."""
    uid = stream.wait_for_driver(seconds=DRIVER_SECONDS)
    stream.mark_failed()
    stream.wait_for_pause()
    stream.wait_until_stopped(uid, DRIVER_SECONDS)
    clicks.assert_exact()


@pytest.mark.long
def test_files_are_there_again_after_the_name_node_and_the_data_node_were_killed(
    hdfs: Hdfs, hdfs_folder: UPath
) -> None:
    file = hdfs_folder / "greeting.txt"
    file.write_text("hello")
    assert [found.name for found in hdfs_folder.iterdir()] == ["greeting.txt"]
    hdfs.kill()
    hdfs.start()
    assert file.read_text() == "hello"


@pytest.mark.long
def test_a_folder_of_another_user_is_not_taken_for_an_empty_one(
    hdfs_folder: UPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("offsets/0", "state/0/schema"):
        write_data_text(hdfs_folder / name, "v1")
    hdfs_folder.fs.client.set_permission((hdfs_folder / "state").path, 0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "guest")
    type(hdfs_folder.fs).clear_instance_cache()  # a client keeps its user
    with pytest.raises(OSError, match="Permission denied"):
        files_of(folder_at(uri_of(hdfs_folder)))
    type(hdfs_folder.fs).clear_instance_cache()
