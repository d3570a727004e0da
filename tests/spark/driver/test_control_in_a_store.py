"""Real drivers whose control is in HDFS, beside their data: the records mean there what they mean on a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.lease import fence, read_lease
from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, request_stop
from sessionizer.errors import LeaseHeld, LeaseLost
from sessionizer.home.roots import uri_of
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined
from support.processes.driver_process import DriverProcess, run_to_end
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath


def committed(stage: Stage) -> int:
    return 0 if stage.lineage is None else len(CheckpointLog(stage.checkpoint).committed())


@pytest.mark.long
def test_drivers_stop_start_are_refused_fenced_and_killed_by_records_in_hdfs(
    tmp_path: Path, hdfs_folder: UPath
) -> None:
    root = uri_of(hdfs_folder)
    # between two drivers it is quiet for long: nothing but a drain may move the watermark
    stage = Stage.set_up(tmp_path, clicks_spec(idle_after=None), data=f"{root}/data", control=f"{root}/control")
    files = write_click_files(stage.feed, 20)
    home = stage.stream_home
    with DriverProcess.start(stage, "a", until="stopped") as first:
        first.wait_for(lambda: committed(stage) >= 2, "two batches")
        assert f"control: {root}/control" in first.said
        with DriverProcess.start(stage, "b") as second:
            assert second.wait() == LeaseHeld.exit_code, second.said[-4_000:]
        request_stop(home, "a", "a test")
        assert first.wait() == 0, first.said[-4_000:]
    ended, beat = EXIT_FILE.of(home, "a").read(), HEARTBEAT_FILE.of(home).read()
    assert ended is not None
    assert ended.outcome is ExitOutcome.STOPPED
    assert beat is not None
    assert beat.uid == "a"
    before = committed(stage)
    with DriverProcess.start(stage, "c", until="stopped") as third:
        third.wait_for(lambda: committed(stage) > before, "another batch")
        assert fence(home, "c") is not None
        assert third.wait() == LeaseLost.exit_code, third.said[-4_000:]
    before = committed(stage)
    with DriverProcess.start(stage, "d", until="stopped") as fourth:
        fourth.wait_for(lambda: committed(stage) > before, "another batch")
        fourth.kill_all()
    stage.write_spec(clicks_spec(files_per_batch=100, idle_after=None))
    run_to_end(stage, "last", apply=True)
    lease = read_lease(home)
    assert lease is not None
    # taken by a, c, d and the last; given up by a and the last, taken from c
    assert (lease.uid, lease.token) == ("last", 7)
    assert_as_defined(stage, files)
    assert not (home.root / "control" / "lineage.json").exists()
