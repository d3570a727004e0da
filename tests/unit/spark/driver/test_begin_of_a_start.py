"""The time that a supervisor gives a start begins after the automatic rollback, however long that took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control import lease
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.control.status.read_status import read_driver
from sessionizer.home.clock import MINUTE, epoch_ms
from sessionizer.spark.driver import driver_loop as driving
from sessionizer.spark.driver.options import DriverOptions
from sessionizer.stream_spec.spec_folder import SpecFile
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path


def test_a_start_after_a_long_rollback_has_all_of_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    home, seen = stage.stream_home, list[DriverStatus]()

    def say(line: str) -> None:
        if line.startswith("starting Spark"):
            seen.append(read_driver(home, epoch_ms()))
            raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(lease, "epoch_ms", lambda: epoch_ms() - 60 * MINUTE)
        patched.setattr(driving, "roll_back_if_due", lambda *_: patched.setattr(lease, "epoch_ms", epoch_ms))
        with pytest.raises(SystemExit):
            driving.drive(home, SpecFile(stage.name, stage.spec()), DriverOptions("a", master="local[2]"), say)
    (status,) = seen
    assert (status.state, status.stall) == (State.STARTING, None)
