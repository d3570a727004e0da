"""Two drivers of one stream: only one of them ever writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from click_files import write_click_files
from driver_process import DriverProcess, run_to_end
from landed import assert_as_defined, table_rows
from moments import TABLES, Moment, freeze_at
from sessionizer.control.exit_record import Outcome, read_exit
from sessionizer.control.lease import fence
from sessionizer.errors import LeaseHeld, LeaseLost
from stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

FILES = 12


def written(stage: Stage) -> set[Path]:
    """Every file of data and every commit of the tables, and every commit of the checkpoint.

    No checksums: one of a commit that is there may be under way.
    """
    tables, commits = stage.stream_home.tables, stage.checkpoint / "commits"
    files = [*tables.rglob("*.parquet"), *tables.rglob("*.json"), *commits.iterdir()]
    return {file for file in files if not file.name.startswith(".")}


def test_of_two_started_together_one_runs_and_the_other_writes_nothing(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=4))
    files = write_click_files(stage.feed, FILES)
    with DriverProcess.start(stage, "a") as one, DriverProcess.start(stage, "b") as two:
        codes = {driver.uid: driver.wait() for driver in (one, two)}
    assert sorted(codes.values()) == [0, LeaseHeld.exit_code]
    refused = min(codes, key=lambda uid: codes[uid] == 0)
    ended = read_exit(stage.stream_home, refused)
    assert ended
    assert (ended.error_type, ended.terminal) == ("LeaseHeld", True)
    assert len(list(stage.stream_home.lineages.iterdir())) == 1
    assert {row["lineage"] for table in TABLES for row in table_rows(stage.table(table))} == {stage.lineage}
    assert_as_defined(stage, files)


def fenced_while_frozen(stage: Stage, uid: str, moment: Moment) -> None:
    """A driver stands still while its lease is taken away: what it does when it moves again is nothing."""
    with DriverProcess.start(stage, uid) as driver:
        freeze_at(moment, driver, stage)
        fence(stage.stream_home, uid)
        before = written(stage)
        with DriverProcess.start(stage, f"{uid}-successor") as successor:
            # it lives, so it might still write to the checkpoint, which knows no fence
            assert successor.wait() == LeaseHeld.exit_code
        driver.thaw()
        assert driver.wait() == LeaseLost.exit_code
    assert written(stage) == before
    ended = read_exit(stage.stream_home, uid)
    assert ended
    assert ended.outcome is Outcome.LEASE_LOST


@pytest.mark.long
def test_fenced_while_it_stands_still_writes_nothing_more(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    files = write_click_files(stage.feed, FILES)
    fenced_while_frozen(stage, "a", Moment.BATCH_RUNS)
    fenced_while_frozen(stage, "b", Moment.BETWEEN_TABLES)
    stage.write_spec(clicks_spec(files_per_batch=FILES))
    run_to_end(stage, "c", apply=True)
    assert_as_defined(stage, files)
