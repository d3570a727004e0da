"""A driver killed at any moment of a batch, its Python, its JVM or both: the next one goes on, nothing is doubled."""

from __future__ import annotations

from enum import StrEnum
from itertools import count, cycle
from typing import TYPE_CHECKING

import pytest

from click_files import write_click_files
from driver_process import DriverProcess, run_to_end
from landed import assert_as_defined
from moments import Moment, freeze_at
from sessionizer.control.exit_record import Outcome, read_exit
from stage import Stage, clicks_spec

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
        ended = read_exit(stage.stream_home, driver.uid)
        assert ended
        assert (ended.outcome, ended.terminal, ended.error_type) == (Outcome.FAILED, False, "driver_jvm_died")


def killed_at(stage: Stage, moment: Moment, victim: Victim, uid: str, first_batch: int = 1) -> int:
    """Run a driver until it is killed; the batch it was at."""
    with DriverProcess.start(stage, uid) as driver:
        batch = freeze_at(moment, driver, stage, first_batch)
        kill(driver, victim, stage)
    return batch


def finish(stage: Stage) -> None:
    stage.write_spec(clicks_spec(files_per_batch=EVERYTHING_LEFT))
    run_to_end(stage, "last")


def test_killed_at_every_moment_in_turn(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    files = write_click_files(stage.feed, FILES)
    batch = 0
    for number, moment, victim in zip(count(), Moment, cycle(Victim), strict=False):
        batch = killed_at(stage, moment, victim, f"d{number}", first_batch=batch + 1)
    finish(stage)
    assert_as_defined(stage, files)


@pytest.mark.long
@pytest.mark.parametrize("victim", Victim)
@pytest.mark.parametrize("moment", Moment)
def test_killed_twice_at(moment: Moment, victim: Victim, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    files = write_click_files(stage.feed, FILES)
    killed_at(stage, moment, victim, "d0")
    # the first batch of the second driver is the one that was not finished, if any
    killed_at(stage, moment, victim, "d1")
    finish(stage)
    assert_as_defined(stage, files)
