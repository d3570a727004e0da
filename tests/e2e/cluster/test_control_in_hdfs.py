"""A stream in YARN whose control is in HDFS, under a running Airflow: no machine of the cluster sees its home."""

import subprocess
import sys

import pytest

from sessionizer.home.control_store import Store
from support.cluster.site import DRIVER_SECONDS, STOPPED_SECONDS, ClusterStage, nobody_sees_the_home
from support.places import REPOSITORY
from support.processes.hadoop import Yarn
from support.processes.live_airflow import Platform


@pytest.fixture(scope="module")
def control_in_hdfs() -> bool:
    return True


@pytest.mark.long
def test_a_stream_is_supervised_where_drivers_and_airflow_share_no_folder(
    platform: Platform, clicks: ClusterStage, running_yarn: Yarn
) -> None:
    clicks.bring(2)
    platform.api.unpause(platform.dag)
    first = platform.wait_for_driver(seconds=DRIVER_SECONDS)
    platform.wait_for_watch()
    clicks.wait_until_all_is_in()
    home = platform.home
    assert Store(home.lineage_record).exists()
    assert not Store(home.own / "lineage.json").exists()
    nobody_sees_the_home(platform, running_yarn)
    assert "clicks" in status(platform, clicks)

    platform.run_now(f"{platform.stream}.stop")
    platform.wait_until_stopped(first, STOPPED_SECONDS)
    clicks.bring(2)
    platform.run_now(f"{platform.stream}.start")
    second = platform.wait_for_driver(other_than=first, seconds=DRIVER_SECONDS)
    clicks.wait_until_all_is_in()

    platform.mark_failed()
    platform.wait_for_pause()
    platform.wait_until_stopped(second, STOPPED_SECONDS)
    clicks.assert_exact()


def status(platform: Platform, clicks: ClusterStage) -> str:
    """What people are told of the stream by a command that knows where control is."""
    command = [sys.executable, str(REPOSITORY / "jobs" / "main.py"), "--control", str(clicks.stage.control), "status"]
    command += ["--home", str(platform.home.platform), "--streams", str(clicks.stage.streams)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "RUNNING" in told or "IDLE" in told, told
    return told
