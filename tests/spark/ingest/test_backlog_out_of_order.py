"""A backlog that is not in the order of time comes late: the driver says so, and so does ``status``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sessionizer.fleet.streams import one_stream
from support.expected.landed import table_rows
from support.faults.bad_clicks import START_MS, click
from support.faults.spoiled_streams import CLICKS, DELTA_CLICKS
from support.processes.driver_process import DriverProcess
from support.streams.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3_600_000
USERS, HOURS = 4, 24
BEGIN_MS = START_MS - HOURS * HOUR_MS


@pytest.mark.long
def test_a_table_of_a_file_for_each_user_is_told_of(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, DELTA_CLICKS)
    for user in range(USERS):
        clicks = [click(hour, f"user-{user}", ts=BEGIN_MS + hour * HOUR_MS) for hour in range(HOURS)]
        write_deltalake(stage.feed, pa.Table.from_pylist(clicks, CLICKS), mode="append")
    with DriverProcess.start(stage, "a", until="caught-up") as driver:
        assert driver.wait() == 0, driver.said[-4_000:]
    late = len(table_rows(stage.table("late_events")))
    assert late > HOURS
    told = f"{late} of the first {USERS * HOURS} events"
    command = f"`sessionizer seed {stage.name} --history source --backfill --start-over`"
    assert [command in line for line in driver.said.splitlines() if "came late" in line] == [True]
    view = one_stream(stage.home, stage.streams, stage.name)
    assert view.late_backlog is not None
    assert told in view.late_backlog
    assert view.to_json()["late_backlog"] == view.late_backlog
