"""Airflow's own processes are killed, and so are drivers: a stream has one driver throughout, and works again."""

import logging
import os
from collections.abc import Iterator
from random import Random

import pytest

from sessionizer.control.records.process_records import read_launch
from sessionizer.control.records.supervision_records import DesiredState, read_desired
from sessionizer_demo.local_airflow.api import wait_until
from support.faults.airflow_faults import FAULTS, api_away, drawn, kill_driver, kill_task, survive
from support.faults.one_writer import OneWriterWatch
from support.faults.slow_launcher import launches_held_up
from support.places import known
from support.processes.live_airflow import Platform

# the faults that `make test` makes are in test_supervision.py, in the Airflow that it has anyway
pytestmark = pytest.mark.long

SETTINGS = {"SESSIONIZER_HEALTHY_AFTER": "2 seconds"}
"""For the fixture `platform`: many faults are no crash loop."""

SEED_VARIABLE = "SESSIONIZER_FAULT_SEED"
SURVIVED_SECONDS = 240.0


@pytest.fixture(autouse=True)
def _one_writer(platform: Platform) -> Iterator[None]:
    platform.api.unpause(platform.dag)
    with OneWriterWatch(platform.home) as promise:
        platform.wait_for_driver()
        platform.wait_for_watch()
        yield
    promise.assert_kept()


@pytest.mark.parametrize("name", ["kill the task", "kill the API server", "kill all of Airflow"])
def test_one_driver_throughout(platform: Platform, name: str) -> None:
    assert FAULTS[name].same_driver
    survive(platform, FAULTS[name], SURVIVED_SECONDS)


@pytest.mark.parametrize("killed", ["task", "scheduler"])
def test_a_driver_whose_launch_was_cut_short_is_adopted(platform: Platform, killed: str) -> None:
    before = platform.wait_for_driver()
    with launches_held_up(platform.home):
        kill_driver(platform)
        uid = wait_for_launch(platform, other_than=before)
        if killed == "task":
            kill_task(platform)
        else:
            FAULTS["kill the scheduler"].inflict(platform)
    assert platform.wait_for_driver(other_than=before, seconds=SURVIVED_SECONDS) == uid
    platform.wait_for_watch(seconds=SURVIVED_SECONDS)
    assert platform.working_uid() == uid


def test_marked_failed_while_a_worker_launches(platform: Platform) -> None:
    before = platform.wait_for_driver()
    with launches_held_up(platform.home):
        kill_driver(platform)
        uid = wait_for_launch(platform, other_than=before)
        assert platform.state_of_watch() == "running"
        platform.mark_failed()
    # The worker is let go before its next heartbeat, the only way in which Airflow would tell the worker itself.
    platform.wait_for_pause()
    platform.wait_until_stopped(uid, SURVIVED_SECONDS)
    assert read_desired(platform.home).state is DesiredState.STOPPED
    platform.run_now(f"{platform.stream}.start")
    platform.api.unpause(platform.dag)
    platform.wait_for_driver(other_than=uid, seconds=SURVIVED_SECONDS)


def test_one_driver_while_the_api_is_away_for_long(platform: Platform) -> None:
    survive(platform, api_away(60), SURVIVED_SECONDS)


@pytest.mark.parametrize("number", [6, 33])
def test_random_faults(platform: Platform, number: int) -> None:
    seed = int(os.environ.get(SEED_VARIABLE) or Random().randrange(10**6))
    log = logging.getLogger(__name__)
    log.warning("%s=%d", SEED_VARIABLE, seed)
    for name in drawn(Random(seed), number):
        log.warning("fault: %s", name)
        survive(platform, FAULTS[name], SURVIVED_SECONDS)


def test_a_killed_driver_leaves_the_other_stream_alone(platform: Platform) -> None:
    other = platform.of("visits")
    other.api.unpause(other.dag)
    untouched = other.wait_for_driver(seconds=120)
    other.wait_for_watch()
    uid, watch = platform.wait_for_driver(), other.watch()
    with OneWriterWatch(other.home) as promise:
        kill_driver(platform)
        platform.wait_for_driver(other_than=uid, seconds=SURVIVED_SECONDS)
        other.wait_for_watch(other_than=watch, seconds=SURVIVED_SECONDS)
        platform.wait_for_watch()
        wait_until(lambda: platform.working_uid() != other.working_uid(), 10, "two drivers")
    promise.assert_kept()
    assert other.working_uid() == untouched


def wait_for_launch(platform: Platform, other_than: str) -> str:
    """The driver whose process has come to be; whoever launched it may still be at it."""

    def is_launched() -> bool:
        launch = read_launch(platform.home)
        return launch is not None and launch.pid is not None and launch.uid != other_than

    wait_until(is_launched, 90, "a launch")
    return known(read_launch(platform.home)).uid
