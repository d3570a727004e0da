"""Compactions by the command line while a driver runs or a stream goes back and forward: no row is lost or doubled."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionizer.checkpoint.log_entries import read_last_commit
from sessionizer.home.clock import epoch_ms
from sessionizer.spark.state.savepoints.saved_state import make_savepoint
from sessionizer.state.compaction.plan import COMPACTION_FILE
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.lineages.table_changes import changes_of_active
from sessionizer.state.savepoints.listing import complete_savepoint
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest
from support.expected.landed import assert_as_defined, landed
from support.processes.driver_process import JOBS, DriverProcess, environment, run_to_end
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.stage import Stage, clicks_spec
from support.verbs.restored_stream import Restored

pytestmark = pytest.mark.long

COMPACTED_WITHIN_S = 1_200
"""A compaction gives way to every other process of the machine."""
FILES = 40
ENOUGH = 6
"""Batches that leave small files."""


def begin_compaction(stage: Stage, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(JOBS / "main.py"), "compact", stage.name, "--json", *more]
    command += ["--home", str(stage.home), "--streams", str(stage.streams), "--master", "local[2]"]
    with (stage.root / "compaction.log").open("w") as log:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment(), start_new_session=True
        )


def compacted(stage: Stage, *more: str) -> dict[str, Any]:
    process = begin_compaction(stage, *more)
    out, _ = process.communicate(timeout=COMPACTED_WITHIN_S)
    assert process.returncode == 0, (stage.root / "compaction.log").read_text()[-4_000:]
    told: dict[str, Any] = json.loads(out)
    return told


@pytest.fixture
def running(tmp_path: Path) -> tuple[Stage, ClickFiles]:
    stage = Stage.set_up(tmp_path, clicks_spec() | {"trigger_interval": "3 seconds"})
    return stage, write_click_files(stage.feed, FILES, rate=8)


def await_batches(stage: Stage, driver: DriverProcess, count: int) -> None:
    driver.wait_for(lambda: stage.lineage is not None and (read_last_commit(stage.checkpoint) or 0) >= count, "batches")


def test_a_running_stream_is_compacted_and_goes_on_as_if_nothing_was(running: tuple[Stage, ClickFiles]) -> None:
    stage, files = running
    with DriverProcess.start(stage, "d0", until="stopped") as driver:
        await_batches(stage, driver, ENOUGH)
        planned = compacted(stage, "--plan")
        assert planned["tables"] is None
        assert COMPACTION_FILE.of(stage.stream_home).require() is None
        done = {table["name"]: table for table in compacted(stage, "--yes")["tables"]}
        assert done["quarantine"]["files_before"] > done["quarantine"]["files"]
        assert not any(table["overtaken"] for table in done.values())
        assert COMPACTION_FILE.of(stage.stream_home).require() is not None
        reached = read_last_commit(stage.checkpoint) or 0
        await_batches(stage, driver, reached + 2)
    stage.write_spec(clicks_spec(files_per_batch=FILES))
    run_to_end(stage, "d1", apply=True)
    assert changes_of_active(stage.stream_home) == ()
    assert_as_defined(stage, files)


@pytest.mark.parametrize("line", ["starting Spark", "sessions: ", "quarantine: "])
def test_one_that_is_killed_is_done_again(running: tuple[Stage, ClickFiles], line: str) -> None:
    stage, files = running
    with DriverProcess.start(stage, "d0", until="stopped") as driver:
        await_batches(stage, driver, ENOUGH)
        victim = begin_compaction(stage, "--yes")
        log = stage.root / "compaction.log"
        driver.wait_for(lambda: line in log.read_text(), line, COMPACTED_WITHIN_S)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        assert COMPACTION_FILE.of(stage.stream_home).require() is None
        compacted(stage, "--yes")
    stage.write_spec(clicks_spec(files_per_batch=FILES))
    run_to_end(stage, "d1", apply=True)
    assert_as_defined(stage, files)


def test_a_stream_goes_back_and_forward_again_over_compactions(spark: SparkSession, tmp_path: Path) -> None:
    restored = Restored.set_up(spark, tmp_path)
    stage, home = restored.stage, restored.stage.stream_home
    before = landed(stage)
    make_savepoint(
        spark, home, read_committed_batch(home), SavepointRequest(home.savepoints, "tests", "later"), lambda _: None
    )
    compacted(stage, "--yes")
    restored.restore()
    assert landed(stage) != before
    compacted(stage, "--yes")
    restored.savepoint, restored.manifest = complete_savepoint(home.savepoints, "later", epoch_ms())
    restored.restore("20261123T090000-abc123")
    assert landed(stage) == before
    compacted(stage, "--yes")
    assert landed(stage) == before
