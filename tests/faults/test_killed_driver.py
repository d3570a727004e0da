"""A driver killed at any moment of a batch, its Python, its JVM or both: the next one goes on, nothing is doubled."""

from __future__ import annotations

import time
from enum import StrEnum
from itertools import count, cycle
from random import Random
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.streams import view_spec
from support.expected.landed import assert_as_defined
from support.processes.driver_process import DriverProcess, run_to_end
from support.stores.data_fixtures import AND_ON_HDFS_IN_THE_LONG_RUN, IN_EVERY_STORE, ON_A_PATH_AND_HDFS
from support.streams.click_files import write_click_files
from support.streams.moments import QUERY_STARTS, Moment, freeze_at
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

FILES = 24
EVERYTHING_LEFT = 1_000
"""Files per batch of the driver that finishes: how it got there is over, it need not take long."""


class Victim(StrEnum):
    """What of a driver is killed."""

    PYTHON = "python"
    JVM = "jvm"
    BOTH = "both"


def kill(driver: DriverProcess, victim: Victim, stage: Stage) -> None:
    if victim is Victim.PYTHON:
        driver.kill_python()
    elif victim is Victim.BOTH:
        driver.kill_all()
    else:
        assert driver.kill_jvm() == 22
        ended = EXIT_FILE.of(stage.stream_home, driver.uid).read()
        assert ended
        assert (ended.outcome, ended.terminal, ended.error_type) == (ExitOutcome.FAILED, False, "driver_jvm_died")


def killed_at(stage: Stage, moment: Moment, victim: Victim, uid: str) -> None:
    """Run a driver until it is killed."""
    with DriverProcess.start(stage, uid) as driver:
        freeze_at(moment, driver, stage)
        kill(driver, victim, stage)


def finish(stage: Stage) -> None:
    stage.write_spec(clicks_spec(files_per_batch=EVERYTHING_LEFT))
    run_to_end(stage, "last", apply=True)


@AND_ON_HDFS_IN_THE_LONG_RUN
def test_killed_between_its_tables(tmp_path: Path, data: str | None) -> None:
    """The moment that only Delta's own memory of the batch makes harmless: some tables have it, others do not."""
    stage = Stage.set_up(tmp_path, clicks_spec(), data=data)
    files = write_click_files(stage.feed, FILES // 2)
    killed_at(stage, Moment.BETWEEN_TABLES, Victim.BOTH, "d0")
    health = view_spec(stage.spec(), stage.home).health
    assert (health.word, health.rule) == (HealthWord.DOWN, "no_driver")
    finish(stage)
    assert_as_defined(stage, files)


@pytest.mark.long
@IN_EVERY_STORE
def test_killed_at_every_moment_in_turn(tmp_path: Path, data: str | None) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(), data=data)
    files = write_click_files(stage.feed, FILES)
    for number, moment, victim in zip(count(), Moment, cycle(Victim), strict=False):
        killed_at(stage, moment, victim, f"d{number}")
    finish(stage)
    assert_as_defined(stage, files)


@pytest.mark.long
@pytest.mark.parametrize("victim", Victim)
@pytest.mark.parametrize("moment", Moment)
def test_killed_twice_at(moment: Moment, victim: Victim, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    files = write_click_files(stage.feed, FILES)
    killed_at(stage, moment, victim, "d0")
    killed_at(stage, moment, victim, "d1")
    finish(stage)
    assert_as_defined(stage, files)


@pytest.mark.long
@ON_A_PATH_AND_HDFS
def test_killed_time_and_again_before_anything_is_done(tmp_path: Path, data: str | None) -> None:
    """In the replay of a batch, and in the replay of that replay."""
    stage = Stage.set_up(tmp_path, clicks_spec(), data=data)
    files = write_click_files(stage.feed, FILES)
    killed_at(stage, Moment.BETWEEN_TABLES, Victim.BOTH, "d0")
    chance = Random(7)
    for number in range(1, 9):
        with DriverProcess.start(stage, f"d{number}") as driver:
            driver.wait_for_line(QUERY_STARTS)
            time.sleep(chance.uniform(0, 8))
            driver.kill_all()
    finish(stage)
    assert_as_defined(stage, files)
