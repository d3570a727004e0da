"""Two drivers of one stream: only one of them ever writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.checkpoint.names import commit_log
from sessionizer.control.lease import acquire, fence
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome
from sessionizer.errors import ControlUnreachable, LeaseHeld, LeaseLost
from sessionizer.home.clock import epoch_ms
from support.expected.landed import assert_as_defined, table_rows
from support.places import opened
from support.processes.driver_process import DriverProcess, run_to_end
from support.streams.click_files import write_click_files
from support.streams.moments import QUERY_STARTS, TABLES, Moment, freeze_at
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

FILES = 12


def written(stage: Stage) -> set[Path]:
    """Every file of data and every commit of the tables, and every commit of the checkpoint.

    No checksums: one of a commit that is there may be under way.
    """
    tables, commits = stage.stream_home.tables, commit_log(stage.checkpoint)
    files = [*opened(tables).rglob("*.parquet"), *opened(tables).rglob("*.json"), *opened(commits).iterdir()]
    return {file for file in files if not file.name.startswith(".")}


def test_of_two_started_together_one_runs_and_the_other_writes_nothing(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=4))
    files = write_click_files(stage.feed, FILES)
    with DriverProcess.start(stage, "a") as one, DriverProcess.start(stage, "b") as two:
        codes = {driver.uid: driver.wait() for driver in (one, two)}
    assert sorted(codes.values()) == [0, LeaseHeld.exit_code]
    refused = min(codes, key=lambda uid: codes[uid] == 0)
    ended = EXIT_FILE.of(stage.stream_home, refused).read()
    assert ended
    assert (ended.error_type, ended.terminal) == ("LeaseHeld", True)
    assert len(list(opened(stage.stream_home.lineages).iterdir())) == 1
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
    ended = EXIT_FILE.of(stage.stream_home, uid).read()
    assert ended
    assert ended.outcome is ExitOutcome.LEASE_LOST


@pytest.mark.long
def test_another_host_takes_the_lease_of_a_driver_that_stands_still_and_of_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot see our processes, and its clock is three minutes ahead. Nothing comes in: no batch makes us beat."""
    stage = Stage.set_up(tmp_path, {**clicks_spec(files_per_batch=FILES), "trigger_interval": "5 minutes"})
    write_click_files(stage.feed, 1)
    home = stage.stream_home
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for_line(QUERY_STARTS)
        monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
        monkeypatch.setattr("sessionizer.control.lease.epoch_ms", lambda: epoch_ms() + 180_000)
        with pytest.raises(LeaseHeld):
            acquire(home, "far", takeover_after_ms=60_000)
        driver.freeze()
        assert acquire(home, "far", takeover_after_ms=10_000).token == 2
        driver.thaw()
        assert driver.wait() == LeaseLost.exit_code


@pytest.mark.long
def test_a_driver_that_cannot_read_its_lease_ends_itself(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=FILES))
    write_click_files(stage.feed, 1)
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for_line(QUERY_STARTS)
        (lease,) = stage.stream_home.leases.iterdir()
        lease.rename(stage.root / "aside")
        lease.mkdir()  # there, and not to be read, as on a share that is away
        assert driver.wait() == ControlUnreachable.exit_code
    ended = EXIT_FILE.of(stage.stream_home, "a").read()
    assert ended
    assert (ended.outcome, ended.terminal) == (ExitOutcome.FAILED, False)


@pytest.mark.long
def test_fenced_while_it_stands_still_writes_nothing_more(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    files = write_click_files(stage.feed, FILES)
    fenced_while_frozen(stage, "a", Moment.BATCH_RUNS)
    fenced_while_frozen(stage, "b", Moment.BETWEEN_TABLES)
    stage.write_spec(clicks_spec(files_per_batch=FILES))
    run_to_end(stage, "c", apply=True)
    assert_as_defined(stage, files)
