"""Savepoints made by the command line while a driver runs: killed, two at once, and the stream feels none of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from sessionizer.checkpoint.batch_logs import read_last_commit
from sessionizer.core.definition.oracle import sessionize
from sessionizer.home.clock import epoch_ms
from sessionizer.spark.query.assembly import rules_of
from sessionizer.state.savepoints.listing import list_savepoints, savepoint_of
from sessionizer.state.savepoints.manifest import SavepointState
from sessionizer.state.savepoints.verification import digest_files, findings
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, batches_of
from support.processes.driver_process import JOBS, DriverProcess, environment, run_to_end
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.state.savepoints.listing import Savepoint
    from support.streams.click_files import ClickFiles

STEPS = ("begun", "logs of the key groups", "state", "open events", "seen files")
"""All that it tells before it is complete."""
FILES = 40
ENOUGH = 3
"""Batches that a savepoint may be of."""


def begin_savepoint(stage: Stage, savepoint: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(JOBS / "main.py"), "savepoint", "create", stage.name, "--id", savepoint]
    # other tests run beside this one, and would leave it next to nothing
    command += ["--home", str(stage.home), "--master", "local[2]", "--hurry", "--json"]
    with (stage.root / f"{savepoint}.log").open("w") as log:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment(), start_new_session=True
        )


def made(process: subprocess.Popen[str], stage: Stage, savepoint: str) -> dict[str, Any]:
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 0, (stage.root / f"{savepoint}.log").read_text()[-4_000:]
    manifest: dict[str, Any] = json.loads(out)
    return manifest


def found(stage: Stage, savepoint: str) -> Savepoint:
    return savepoint_of(stage.stream_home.savepoints, savepoint, epoch_ms())


def assert_holds_what_is_open(stage: Stage, files: ClickFiles, savepoint: str) -> None:
    """By its own manifest, and by the definition for the batches up to its own."""
    one = found(stage, savepoint)
    assert one.manifest
    files_now = digest_files(one.home)
    assert not findings(one.manifest.files, files_now.files, files_now.unreadable)
    committed = CheckpointLog(stage.checkpoint).committed()
    until = [batch for batch in committed if batch.batch_id <= one.manifest.batch_id]
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
    return stage, write_click_files(stage.feed, FILES, rate=8)


def await_batches(stage: Stage, driver: DriverProcess) -> None:
    driver.wait_for(
        lambda: stage.lineage is not None and (read_last_commit(stage.checkpoint) or 0) >= ENOUGH, "batches"
    )


def test_a_running_stream_is_saved_and_goes_on_as_if_nothing_was(running: tuple[Stage, ClickFiles]) -> None:
    stage, files = running
    with DriverProcess.start(stage, "d0", until="stopped") as driver:
        await_batches(stage, driver)
        manifest = made(begin_savepoint(stage, "a"), stage, "a")
        assert not driver.ended
    assert manifest["live"] is True
    assert manifest["batch_id"] >= ENOUGH
    assert_holds_what_is_open(stage, files, "a")
    stage.write_spec(clicks_spec(files_per_batch=FILES))
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
        log = stage.root / "a.log"
        driver.wait_for(lambda: line in log.read_text(), line)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        states = {each.id: each.state for each in list_savepoints(stage.stream_home.savepoints, epoch_ms())}
        assert states == ({} if line == "starting Spark" else {"a": SavepointState.ABANDONED})
        both = [begin_savepoint(stage, savepoint) for savepoint in ("a", "b")]
        for process, savepoint in zip(both, ("a", "b"), strict=True):
            made(process, stage, savepoint)
            assert_holds_what_is_open(stage, files, savepoint)
        assert not driver.ended


@pytest.mark.long
def test_a_savepoint_with_a_stop_has_all_that_was_read(running: tuple[Stage, ClickFiles]) -> None:
    stage, files = running
    with DriverProcess.start(stage, "d0", until="stopped") as driver:
        await_batches(stage, driver)
        command = [sys.executable, str(JOBS / "main.py"), "savepoint", "create", stage.name, "--id", "a", "--stop"]
        command += ["--home", str(stage.home), "--streams", str(stage.streams), "--master", "local[2]"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
        assert done.returncode == 0, done.stderr[-4_000:]
        assert driver.wait() == 0
    manifest = found(stage, "a").manifest
    assert manifest
    assert (manifest.live, manifest.batch_id) == (False, read_last_commit(stage.checkpoint))
    assert_holds_what_is_open(stage, files, "a")
