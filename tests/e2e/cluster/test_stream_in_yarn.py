"""A stream whose driver and executors are containers of a real YARN, its data in HDFS, under a running Airflow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import pytest

from sessionizer_demo.local_airflow.api import wait_until
from support.faults.airflow_faults import has_stopped, wait_for_pause
from support.places import REPOSITORY

if TYPE_CHECKING:
    from support.cluster.cluster_stage import ClusterStage
    from support.processes.live_airflow import Platform
    from support.processes.yarn import Yarn

DRIVER_SECONDS = 240.0
STOPPED_SECONDS = 120.0


@pytest.mark.long
def test_a_stream_lives_in_yarn_and_hdfs_as_on_one_machine(
    platform: Platform, clicks: ClusterStage, running_yarn: Yarn
) -> None:
    clicks.bring(2)
    platform.api.unpause(platform.dag)
    first = platform.wait_for_driver(seconds=DRIVER_SECONDS)
    platform.wait_for_watch()
    clicks.wait_until_all_is_in()
    executors_see_no_control(platform, running_yarn)
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


def states(yarn: Yarn, uid: str) -> list[str]:
    found = yarn.asked(f"apps?applicationTags={uid}").get("apps") or {}
    return [app["state"] for app in found.get("app", [])]


def executors_see_no_control(platform: Platform, yarn: Yarn) -> None:
    """Nor do their Python workers; the driver does. And our package is on no path of theirs but the one handed on."""
    home = platform.installation.platform_home
    seen = {process: names_in(Path(f"/proc/{process.pid}/root{home}")) for process in yarn.processes()}
    executors = [process for process in seen if is_executor(process)]
    assert executors
    family = {child for executor in executors for child in (executor, *executor.children(recursive=True))}
    assert any("pyspark" in command_of(process) for process in family), "Python workers"
    assert {process.pid for process in family if seen.get(process)} == set()
    assert any(seen.values()), "the driver"
    for executor in executors:
        path = executor.environ()["PYTHONPATH"]
        assert "sessionizer-" in path
        assert str(REPOSITORY / "jobs") not in path


def is_executor(process: psutil.Process) -> bool:
    """Not the shell that starts it."""
    command = command_of(process)
    return "YarnCoarseGrainedExecutorBackend" in command and command.partition(" ")[0].endswith("java")


def names_in(folder: Path) -> list[str]:
    """None of a process that has just ended."""
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
