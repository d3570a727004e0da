"""The page knows a paused supervisor the moment it is paused, and no record of an earlier pause counts then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.airflow_records import (
    PAUSE_FILE,
    SUPERVISION_FILE,
    PauseRecord,
    SupervisionRecord,
)
from sessionizer.control.records.desired_state import DesiredState, write_desired
from sessionizer.control.records.process_records import LAUNCH_FILE, LaunchRecord
from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.drained import begin_drain, end_drain
from sessionizer.page.reader import PageReader

if TYPE_CHECKING:
    from support.processes.fabricated_platform import Platform


@pytest.mark.parametrize(
    ("noted", "answer", "rule"),
    [
        (None, True, "paused"),
        (True, False, "working"),
        (True, None, "paused"),
        (False, True, "paused"),
        (None, None, "working"),
    ],
)
def test_what_the_host_says_now_counts(platform: Platform, noted: bool | None, answer: bool | None, rule: str) -> None:
    platform.add("visits")
    _, home = platform.drive("visits")
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms() - 60_000, log="logs/driver.log"))
    if noted is not None:
        PAUSE_FILE.of(home).write(PauseRecord(paused=noted, at=epoch_ms()))
    reader = PageReader(platform.home, platform.streams, lambda _: {} if answer is None else {"visits": answer})
    (row,) = reader.fleet()["streams"]
    assert row["health"]["rule"] == rule
    document = reader.stream("visits", 3_600_000)
    assert document is not None
    assert document["row"]["health"] == row["health"]


def test_a_drained_stream_needs_no_supervisor(platform: Platform) -> None:
    """Its supervisor gave up and paused its DAG, because another driver was refused."""
    platform.add("visits")
    lease, home = platform.drive("visits")
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms() - 60_000, log="logs/driver.log"))
    lineage = start_lineage(home)
    begin_drain(home, lineage)
    end_drain(home, lineage)
    lease.release()
    SUPERVISION_FILE.of(home).write(
        SupervisionRecord(given_up=True, last_failure="refused", last_failure_ms=epoch_ms())
    )
    write_desired(home, DesiredState.RUNNING, by="olga", why="")
    (row,) = PageReader(platform.home, platform.streams, lambda _: {"visits": True}).fleet()["streams"]
    assert (row["health"]["word"], row["health"]["rule"]) == ("healthy", "drained")
