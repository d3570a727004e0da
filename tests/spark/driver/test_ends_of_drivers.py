"""What a driver leaves when something fails: a record that is true, written after its query has ended."""

import json
import threading
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from sessionizer.checkpoint.log_entries import list_begun_batches, list_committed_batches
from sessionizer.control.history.files import MarkKind, read_history, read_marks
from sessionizer.control.history.sample import PHASES, combine
from sessionizer.control.maintenance import record_failure
from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, request_stop
from sessionizer.control.records.process_records import stop_requested as is_stop_requested
from sessionizer.errors import QueryFailed, QueryInterrupted, StreamDrained, TableOwned
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import remove_tree
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import DRAINED_FILE
from sessionizer.spark.driver.driver_loop import drive
from sessionizer.spark.driver.options import DriverOptions, Until
from sessionizer.spark.driver.query_watch import REFUSED_BATCH
from sessionizer.stream_spec.spec_folder import SpecFile
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, table_rows
from support.faults.bad_clicks import line
from support.places import known, opened
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.in_process import deliver_events, drain
from support.processes.ports import eventually
from support.streams.click_files import many_clicks_spec, write_click_files, write_many_clicks
from support.streams.stage import Stage, clicks_spec

EVENTS = 600_000
"""In one batch: there is time to do something while it runs."""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage.set_up(tmp_path, many_clicks_spec())
    write_many_clicks(stage.feed, EVENTS)
    return stage


def run(stage: Stage, say: Callable[[str], None], until: Until = Until.STOPPED) -> None:
    file = SpecFile(stage.name, stage.spec())
    drive(stage.stream_home, file, DriverOptions(uid="a", master="local[2]", until=until), say)


def while_its_batch_runs(spark: SparkSession, stage: Stage) -> threading.Thread:
    """Ask the driver to stop while a job of it shuffles: that of the public clock, of one stage, comes before."""

    def evaluates() -> bool:
        tracker = spark.sparkContext.statusTracker()
        jobs = (tracker.getJobInfo(job) for job in tracker.getActiveJobsIds())
        return any(job is not None and len(job.stageIds) > 1 for job in jobs)

    def wait_and_ask() -> None:
        eventually(lambda: stage.lineage and list_begun_batches(stage.checkpoint) and evaluates())
        request_stop(stage.stream_home, "a", "a test")

    thread = threading.Thread(target=wait_and_ask)
    thread.start()
    return thread


def test_nothing_runs_any_more_when_the_exit_record_is_written(
    spark: SparkSession, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work = []

    def watch_and_record(home: StreamHome, uid: str, error: BaseException) -> None:
        at_work.append([query.name for query in spark.streams.active])
        record_failure(home, uid, error)

    def say(line: str) -> None:
        if line.startswith("stop requested"):
            raise RuntimeError("nobody listens any more")

    monkeypatch.setattr("sessionizer.spark.driver.driver_loop.record_failure", watch_and_record)
    asked = while_its_batch_runs(spark, stage)
    with pytest.raises(QueryInterrupted, match="nobody listens"):
        run(stage, say)
    asked.join()
    assert at_work == [[]]
    assert not list_committed_batches(stage.checkpoint)
    assert [mark.kind for mark in read_marks(stage.stream_home, 0, epoch_ms())] == [MarkKind.START, MarkKind.CRASH]


@pytest.mark.long
def test_a_batch_that_fails_while_its_driver_is_to_stop_is_a_failure(spark: SparkSession, stage: Stage) -> None:
    def say(line: str) -> None:
        if line.startswith("stop requested"):
            state = stage.checkpoint / "state"
            remove_tree(state)
            opened(state).write_text("no state any more")

    asked = while_its_batch_runs(spark, stage)
    with pytest.raises((QueryFailed, QueryInterrupted)):
        run(stage, say)
    asked.join()
    ended = known(EXIT_FILE.of(stage.stream_home, "a").read())
    assert (ended.outcome, ended.batch_id) == (ExitOutcome.FAILED, None)
    assert not list_committed_batches(stage.checkpoint)


@pytest.mark.parametrize("done", [*(pytest.param(done, marks=pytest.mark.long) for done in (0, 1)), 2])
def test_a_driver_that_turns_its_next_batch_away_says_so_and_the_next_one_goes_on_there(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    done: int,
) -> None:
    """The batch asks before the driver's own look does. Spark's error of forty lines about it is not printed."""
    stage = Stage.set_up(tmp_path, clicks_spec())
    files, levels = write_click_files(stage.feed, 4), list[str]()

    def stop_requested(home: StreamHome, uid: str) -> bool:
        """Ask the driver to stop when the query comes to the gate of a batch, with so many behind it."""
        if threading.current_thread() is not driver and len(CheckpointLog(stage.checkpoint).committed()) == done:
            request_stop(home, uid, "a test")
        return is_stop_requested(home, uid)

    def sleep(_seconds: float) -> None:
        """Let the driver look again when its query has ended."""
        eventually(lambda: not spark.streams.active)

    driver, loop = threading.current_thread(), "sessionizer.spark.driver.driver_loop"
    with monkeypatch.context() as patched:
        patched.setattr(f"{loop}.stop_requested", stop_requested)
        patched.setattr(f"{loop}.time", SimpleNamespace(sleep=sleep))
        patched.setattr(type(spark), "stop", lambda _: levels.append(log_level(spark)))  # the tests go on with it
        said: list[str] = []
        run(stage, said.append)
        assert REFUSED_BATCH in said
        ended = known(EXIT_FILE.of(stage.stream_home, "a").read())
        assert ended.outcome is ExitOutcome.STOPPED
        begun, committed = list_begun_batches(stage.checkpoint), list_committed_batches(stage.checkpoint)
        assert (len(begun), len(committed)) == (done + 1, done)
        assert "GateClosed" not in capfd.readouterr().err
        assert levels == ["WARN"], "errors of Spark's end are told"
        history = read_history(stage.stream_home, 0, epoch_ms())
        assert [mark.kind for mark in history.marks] == [MarkKind.START, MarkKind.STOP]
    drain(spark, stage)
    assert_as_defined(stage, files)


def log_level(spark: SparkSession) -> str:
    # Spark can set the level, and has no public way to ask for it
    log4j = cast("Any", spark.sparkContext)._jvm.org.apache.logging.log4j
    return str(log4j.LogManager.getRootLogger().getLevel().toString())


def test_the_history_has_every_batch_of_a_driver_that_ended(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    write_click_files(stage.feed, 4)
    deliver_events(spark)  # of the queries of other tests: a driver has a session of its own
    # the end of Spark delivers what its listeners were not told so far: that much of it is made here
    monkeypatch.setattr(type(spark), "stop", deliver_events)
    run(stage, lambda _: None, Until.CAUGHT_UP)
    whole = reduce(combine, read_history(stage.stream_home, 0, epoch_ms()).samples)  # its minutes end at any batch
    assert whole.rows > 0
    assert whole.batches == len(list_committed_batches(stage.checkpoint))
    assert whole.lineage == stage.lineage
    assert set(whole.phases) == set(PHASES)
    assert sum(whole.closed.values()) == whole.sessions > 0
    assert (whole.key_events or 0) >= (whole.key_p99_events or 1) >= 1
    assert (whole.group_bytes or 0) >= (whole.group_p99_bytes or 1) > 0
    beat = known(HEARTBEAT_FILE.of(stage.stream_home).require())
    assert beat.heaviest_keys[0].key == known(whole.key)
    assert sum(beat.open_ages.values()) > 0
    assert beat.straggler is None


@pytest.mark.long
def test_a_second_night_is_refused_and_so_is_a_second_home(tmp_path: Path) -> None:
    shared = tmp_path / "lake"
    spec = {**clicks_spec(), "sink": {"path": str(shared)}}
    first, second = (Stage.set_up(tmp_path / name, spec) for name in ("one", "two"))
    for each in (first, second):
        (each.feed / "night-1.json").write_bytes(line(0, "early") + b"\n" + line(600, "late"))
    said = run_to_end(first, "night-1")
    assert said.index("closed for good") < said.index("starting Spark")
    assert "drained and over" in said
    assert f"home: {first.home}" in said
    sessions = table_rows(shared / "sessions")
    assert len(sessions) == 2
    drain = known(DRAINED_FILE.of(first.stream_home, str(first.lineage)).require())
    assert drain.batch_id == CheckpointLog(first.checkpoint).committed()[-1].batch_id
    assert drain.over_at is not None

    (first.feed / "night-2.json").write_bytes(line(90_000, "tomorrow"))
    for until in ("drained", "stopped"):
        said = run_to_end(first, f"night-2-{until}", until=until, code=StreamDrained.exit_code)
        assert "`--until caught-up`" in said
    ended = known(EXIT_FILE.of(first.stream_home, "night-2-stopped").read())
    assert (ended.error_type, ended.terminal) == ("StreamDrained", True)

    said = run_to_end(second, "copy", code=TableOwned.exit_code)
    owner = json.loads((first.home / "home.json").read_text())["id"]
    assert f"belongs to clicks@{owner}" in said
    assert "ALTER TABLE" in said
    assert table_rows(shared / "sessions") == sessions


@pytest.mark.long
def test_a_drain_that_was_cut_short_is_finished_whatever_is_asked_for(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    (stage.feed / "clicks.json").write_bytes(line(0, "early") + b"\n" + line(600, "late"))
    with DriverProcess.start(stage, "a") as driver:
        records = stage.stream_home.lineage_records
        driver.wait_for(lambda: any(records.glob("*/drained.json")), "its drain", every_s=0.02)
        driver.kill_all()
    said = run_to_end(stage, "b", until="stopped")
    assert "finished now" in said
    assert len(table_rows(stage.table("sessions"))) == 2
    run_to_end(stage, "c", until="stopped", code=StreamDrained.exit_code)
