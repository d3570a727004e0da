"""The ``status`` of streams whose driver has died as a real process."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

from sessionizer.causes.cause import HUNG
from sessionizer.control.lease import acquire
from sessionizer.control.records.airflow_records import SUPERVISION_FILE, SupervisionRecord
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.fabricated_platform import Platform


def _take_the_lease_and_die(root: Path) -> None:
    acquire(StreamHome(root), "driver-1")


def test_a_vanished_driver_is_noticed(platform: Platform) -> None:
    home = platform.add("visits")
    home.prepare()
    driver = multiprocessing.get_context("fork").Process(target=_take_the_lease_and_die, args=(home.root,))
    driver.start()
    driver.join()
    result = platform.call("status")
    assert "VANISHED" in result.stdout
    assert "to resume: `sessionizer run visits`" in result.stdout


def test_a_hang_that_was_ended_keeps_its_cause_when_the_wait_is_over(platform: Platform) -> None:
    home = platform.add("visits")
    home.prepare()
    driver = multiprocessing.get_context("fork").Process(target=_take_the_lease_and_die, args=(home.root,))
    driver.start()
    driver.join()
    record = SupervisionRecord(
        failures=1, last_failure="driver driver-1 was replaced: silent for 160 s", cause="hung", remedy=HUNG.remedy,
        counted_uid="driver-1", restart_at=epoch_ms() - 1,
    )  # fmt: skip
    SUPERVISION_FILE.of(home).write(record)
    shown = platform.call("status").stdout
    assert f"silent for 160 s. What to do: {HUNG.remedy}" in shown
    assert "unpause the DAG visits.supervise" in shown
