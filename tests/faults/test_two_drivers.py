"""Two drivers of one stream: only one of them ever writes."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from sessionizer.checkpoint.log_entries import commit_log, read_last_commit
from sessionizer.control.lease import acquire, fence
from sessionizer.control.records.process_records import ExitOutcome
from sessionizer.core.definition.oracle import sessionize
from sessionizer.errors import ControlUnreachable, LeaseHeld, LeaseLost
from sessionizer.home.clock import epoch_ms
from sessionizer.spark.query.assembly import rules_of
from sessionizer.state.savepoints.listing import list_savepoints, savepoint_of
from sessionizer.state.savepoints.manifest import SavepointState
from sessionizer.state.savepoints.verification import digest_files
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, batches_of, table_rows
from support.places import known, opened
from support.processes.driver_process import DriverProcess, TypedCommand, run_to_end
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.moments import QUERY_STARTS, TABLES, Moment, freeze_at
from support.streams.stage import Stage, clicks_spec

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
    ended = stage.exit_of(refused)
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
    assert stage.exit_of(uid).outcome is ExitOutcome.LEASE_LOST


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
    ended = stage.exit_of("a")
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


STEPS = ("begun", "logs of the key groups", "state", "open events", "seen files")
"""All that it tells before it is complete."""
FILES_OF_SAVED = 40
ENOUGH = 3
"""Batches that a savepoint may be of."""


def begin_savepoint(stage: Stage, savepoint: str) -> TypedCommand:
    # other tests run beside this one, and would leave it next to nothing
    return TypedCommand.start(stage, ("savepoint", "create"), "--id", savepoint, "--hurry", "--json")


def assert_holds_what_is_open(stage: Stage, files: ClickFiles, savepoint: str) -> None:
    """By its own manifest, and by the definition for the batches up to its own."""
    one = savepoint_of(stage.stream_home.savepoints, savepoint, epoch_ms())
    manifest = known(one.manifest)
    files_now = digest_files(one.home)
    assert not files_now.findings(manifest.files)
    committed = CheckpointLog(stage.checkpoint).committed()
    until = [batch for batch in committed if batch.batch_id <= manifest.batch_id]
    expected = sessionize(batches_of(until, files), rules_of(stage.spec()))
    rows = DeltaTable(str(one.home.part("open_events"))).to_pyarrow_table().to_pylist()
    held = {(row["key"], row["event_id"], row["clock_ms"]) for row in rows}
    open_now = {(each.event.key, each.event.event_id, each.clock_ms) for each in expected.open_events}
    assert open_now
    assert open_now <= held
    closed = {(each.key, event.event_id, event.event_time_ms) for each in expected.closed for event in each.events}
    assert held - open_now <= closed | {(each.key, each.event_id, each.event_time_ms) for each in expected.conflicting}


@pytest.fixture
def running(tmp_path: Path) -> tuple[Stage, ClickFiles]:
    # batches begin while a savepoint is made, and leave it some of the processors
    stage = Stage.set_up(tmp_path, clicks_spec() | {"trigger_interval": "3 seconds"})
    return stage, write_click_files(stage.feed, FILES_OF_SAVED, rate=8)


def await_batches(stage: Stage, driver: DriverProcess) -> None:
    def are_enough() -> bool:
        return stage.lineage is not None and (read_last_commit(stage.checkpoint) or 0) >= ENOUGH

    driver.wait_for(are_enough, "batches")


def test_a_running_stream_is_saved_and_goes_on_as_if_nothing_was(running: tuple[Stage, ClickFiles]) -> None:
    stage, files = running
    with DriverProcess.start(stage, "d0", until="stopped") as driver:
        await_batches(stage, driver)
        manifest = begin_savepoint(stage, "a").document()
        assert not driver.ended
    assert manifest["live"] is True
    assert manifest["batch_id"] >= ENOUGH
    assert_holds_what_is_open(stage, files, "a")
    stage.write_spec(clicks_spec(files_per_batch=FILES_OF_SAVED))
    run_to_end(stage, "d1", apply=True)
    assert_as_defined(stage, files)


@pytest.mark.long
@pytest.mark.parametrize("line", ["starting Spark", *(f"done: {step}" for step in STEPS)])
def test_one_that_is_killed_is_told_as_abandoned_and_the_next_is_whole(
    running: tuple[Stage, ClickFiles], line: str
) -> None:
    stage, files = running
    with DriverProcess.start(stage, "d0", until="stopped") as driver:
        await_batches(stage, driver)
        victim = begin_savepoint(stage, "a")
        victim.wait_for(line)
        victim.kill()
        states = {each.id: each.state for each in list_savepoints(stage.stream_home.savepoints, epoch_ms())}
        assert states == ({} if line == "starting Spark" else {"a": SavepointState.ABANDONED})
        both = {savepoint: begin_savepoint(stage, savepoint) for savepoint in ("a", "b")}
        for savepoint, command in both.items():
            command.document()
            assert_holds_what_is_open(stage, files, savepoint)
        assert not driver.ended


@pytest.mark.long
def test_a_savepoint_with_a_stop_has_all_that_was_read(running: tuple[Stage, ClickFiles]) -> None:
    stage, files = running
    with DriverProcess.start(stage, "d0", until="stopped") as driver:
        await_batches(stage, driver)
        done = TypedCommand.start(stage, ("savepoint", "create"), "--id", "a", "--stop")
        assert done.end() == 0, done.said
        assert driver.wait() == 0
    manifest = known(savepoint_of(stage.stream_home.savepoints, "a", epoch_ms()).manifest)
    assert (manifest.live, manifest.batch_id) == (False, read_last_commit(stage.checkpoint))
    assert_holds_what_is_open(stage, files, "a")
