"""Savepoints of a stream: what is in them, what they say of themselves, what is left of those that were cut short."""

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sessionizer.checkpoint.log_entries import EVENTS, commit_log, read_last_commit, read_planned_batch
from sessionizer.errors import BatchOutrun, NothingToSave, UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import GROUP_LOGS, OPEN_EVENTS, SavepointHome
from sessionizer.spark.state.contents_reader import compare_states
from sessionizer.spark.state.open_events import reading_state
from sessionizer.spark.state.savepoints.saved_state import make_savepoint, open_sessions, recount, savepoint_table
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.listing import examine_savepoint, savepoint_of
from sessionizer.state.savepoints.manifest import Manifest, SavepointState, read_manifest
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest
from sessionizer.state.savepoints.verification import Damage, digest_files
from support.checkpoints.fabricated_checkpoints import NOBODY
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import epoch_ms as ms
from support.expected.landed import open_stretches
from support.places import opened
from support.processes.in_process import ReadClicks, catch_up, read_clicks
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec
from support.verbs.scripted_runner import Killed

Saved: TypeAlias = "tuple[SavepointHome, Manifest]"
STEPS = ["begun", "logs of the key groups", "state", "open events", "seen files", "manifest"]


@pytest.fixture(scope="module")
def streamed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ReadClicks:
    return read_clicks(spark, tmp_path_factory.mktemp("stage"), 4)


def save(
    spark: SparkSession,
    streamed: ReadClicks,
    savepoint: str,
    *,
    batch: int | None = None,
    folder: Path | None = None,
    after: Callable[[str], None] = lambda _: None,
) -> Saved:
    home = streamed.stage.stream_home
    asked = SavepointRequest(folder or streamed.stage.stream_home.savepoints, "tests", savepoint)
    made = make_savepoint(spark, home, read_committed_batch(home, batch), asked, after)
    return savepoint_of(asked.folder, savepoint, epoch_ms()).home, made


@pytest.fixture(scope="module")
def last(spark: SparkSession, streamed: ReadClicks) -> Saved:
    return save(spark, streamed, "last")


@pytest.fixture(scope="module")
def earlier(spark: SparkSession, streamed: ReadClicks) -> Saved:
    return save(spark, streamed, "earlier", batch=1)


def wrong_with(home: SavepointHome) -> list[Damage]:
    manifest, found = read_manifest(home), digest_files(home)
    assert manifest
    return [each.damage for each in found.findings(manifest.files)]


@pytest.fixture(params=["last", "earlier"])
def saved(request: pytest.FixtureRequest) -> Saved:
    found: Saved = request.getfixturevalue(request.param)
    return found


# What is in it


def test_its_tables_are_read_without_our_classes(streamed: ReadClicks, saved: Saved) -> None:
    home, made = saved
    expected = streamed.outcome(made.batch_id)
    rows = duckdb.from_arrow(DeltaTable(str(home.part("open_events"))).to_pyarrow_table())
    found = rows.project("key, event_id, clock_ms, payload_page").distinct().fetchall()
    page = 1
    open_now = {(e.event.key, e.event.event_id, e.clock_ms, e.event.payload[page]) for e in expected.open_events}
    assert open_now
    # what is final but waits for its turn is there, too, and what a merge will find to be a repeat
    assert open_now <= set(found)
    closed = {(s.key, e.event_id, e.event_time_ms) for s in expected.closed for e in s.events}
    conflicting = {(e.key, e.event_id, e.event_time_ms) for e in expected.conflicting}
    assert {row[:3] for row in set(found) - open_now} <= closed | conflicting
    assert made.counts
    counted = rows.aggregate("count(*), count(distinct key), count(distinct key_group)").fetchall()
    assert counted == [(made.counts.events, made.counts.keys, made.counts.groups)]
    assert DeltaTable(str(home.part("timeouts"))).to_pyarrow_table().num_rows == made.counts.timeouts == 0
    seen = DeltaTable(str(home.part("seen_files"))).to_pyarrow_table()
    committed = CheckpointLog(streamed.stage.checkpoint).committed()[: made.batch_id + 1]
    brought = {name for batch in committed for name in batch.files if name in streamed.files}
    assert {uri.rpartition("/")[2] for uri in seen.column("uri").to_pylist()} == brought


def test_an_export_has_each_open_session_with_the_end_it_would_have(
    spark: SparkSession, streamed: ReadClicks, saved: Saved
) -> None:
    home, made = saved
    expected = streamed.outcome(made.batch_id)
    rows = open_sessions(spark, home, made).toArrow().to_pylist()
    found = Counter(
        (row["key"], row["event_count"], ms(row["last_event_at"]), ms(row["would_end_at"]), len(row["events"]))
        for row in rows
        if ms(row["would_end_at"]) > expected.watermark_ms
    )
    assert found == Counter(
        (s.events[0].event.key, len(s.events), s.events[-1].clock_ms, s.due_ms, len(s.events))
        for s in open_stretches(expected)
    )
    assert made.counts
    assert len(rows) == made.counts.sessions
    assert made.earliest_due_ms == min(ms(row["would_end_at"]) for row in rows)


# What it says of itself


def test_it_stands_where_the_next_batch_begins(streamed: ReadClicks, earlier: Saved) -> None:
    made, following = earlier[1], read_planned_batch(streamed.stage.checkpoint, 2)
    assert (made.stream, made.lineage, made.batch_id) == ("clicks", streamed.stage.lineage, 1)
    assert made.watermark_ms == following.watermark_ms > 0
    assert made.position.offset == read_planned_batch(streamed.stage.checkpoint, 1).ends[EVENTS]
    assert made.spec["rules"]["gap_timeout"] == "30 seconds"
    assert made.fingerprint.configuration["spark.sql.shuffle.partitions"] == "2"
    assert made.fingerprint.versions["spark"] == "4.2.0"


def test_the_tables_at_its_versions_have_no_row_of_a_later_batch(streamed: ReadClicks, saved: Saved) -> None:
    for sink in saved[1].sinks:
        now = DeltaTable(sink.location).to_pyarrow_table().select(["batch_id"]).to_pydict()["batch_id"]
        assert sink.version is not None
        then = DeltaTable(sink.location, version=sink.version).to_pyarrow_table().to_pydict()["batch_id"]
        assert sorted(then) == sorted(batch for batch in now if batch <= saved[1].batch_id), sink.name
    assert {sink.name for sink in saved[1].sinks} == {"sessions", "quarantine", "late_events"}


def test_it_is_as_it_was_written(spark: SparkSession, saved: Saved) -> None:
    home, made = saved
    assert read_manifest(home) == made
    assert not wrong_with(home)
    held = made.counts, made.earliest_due_ms
    assert recount(spark, home, made) == {OPEN_EVENTS: held, GROUP_LOGS: held}


def test_two_of_them_tell_what_came_in_between(spark: SparkSession, earlier: Saved, last: Saved) -> None:
    tables = [savepoint_table(spark, home, "open_events") for home in (earlier[0], last[0])]
    found = compare_states(tables[0], tables[1], most=0)
    events = [{(row.key, row.event_id, row.clock_ms) for row in table.collect()} for table in tables]
    assert found.events_in_both == len(events[0] & events[1])
    assert found.events_only_before == len(events[0] - events[1])
    assert found.events_only_now == len(events[1] - events[0]) > 0


def test_what_is_complete_is_not_made_again(spark: SparkSession, streamed: ReadClicks, last: Saved) -> None:
    steps: list[str] = []
    assert save(spark, streamed, "last", batch=0, after=steps.append)[1] == last[1]
    assert steps == []


# What is cut short


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=() if step == "open events" else pytest.mark.long) for step in STEPS]
)
def test_one_that_is_killed_at_any_step_is_told_and_made_again(
    spark: SparkSession, streamed: ReadClicks, tmp_path: Path, step: str
) -> None:
    def die(done: str) -> None:
        if done == step:
            raise Killed

    with pytest.raises(Killed):
        save(spark, streamed, "a", folder=tmp_path, after=die)
    found = savepoint_of(tmp_path, "a", epoch_ms())
    if step == STEPS[-1]:
        assert found.state is SavepointState.COMPLETE
        return
    assert found.state is SavepointState.MAKING
    with pytest.raises(UnusableSavepoint, match="by process"):
        save(spark, streamed, "a", folder=tmp_path)
    begun = json.loads(opened(found.home.begun).read_text())
    opened(found.home.begun).write_text(json.dumps({**begun, "pid": NOBODY}))  # its maker is dead
    assert examine_savepoint(found.home, epoch_ms()).state is SavepointState.ABANDONED
    home, made = save(spark, streamed, "a", folder=tmp_path)
    assert not wrong_with(home)
    assert made.counts
    assert made.counts.events > 0


def test_the_steps_are_all_there_are(spark: SparkSession, streamed: ReadClicks, tmp_path: Path) -> None:
    steps: list[str] = []
    save(spark, streamed, "a", folder=tmp_path, after=steps.append)
    assert steps == STEPS


def test_one_that_fails_says_why(spark: SparkSession, streamed: ReadClicks, tmp_path: Path) -> None:
    def fail(step: str) -> None:
        if step == "state":
            raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        save(spark, streamed, "a", folder=tmp_path, after=fail)
    found = savepoint_of(tmp_path, "a", epoch_ms())
    assert (found.state, found.wrong) == (SavepointState.FAILED, "disk gone")
    assert not wrong_with(save(spark, streamed, "a", folder=tmp_path)[0])


def test_queries_of_the_session_run_on_while_a_state_is_read(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=2))
    write_click_files(stage.feed, 2, rate=4)
    with reading_state(spark):
        catch_up(spark, stage)
    assert read_last_commit(stage.checkpoint) is not None


@pytest.mark.long
def test_two_at_once_do_not_meet(spark: SparkSession, streamed: ReadClicks, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        making = [pool.submit(save, spark, streamed, name, folder=tmp_path) for name in ("a", "b")]
    homes, manifests = zip(*(each.result() for each in making), strict=True)
    assert not any(map(wrong_with, homes))
    one, other = (replace(made, id="", made_at=0, files=(), counts=None) for made in manifests)
    assert one == other


# A stream that is not there to be saved


def test_a_batch_that_is_dropped_meanwhile_is_named(spark: SparkSession, streamed: ReadClicks, tmp_path: Path) -> None:
    commit = commit_log(streamed.stage.checkpoint) / "0"
    content = opened(commit).read_bytes()

    def drop(step: str) -> None:
        if step == "logs of the key groups":
            opened(commit).unlink()

    try:
        with pytest.raises(BatchOutrun, match="batch 0"):
            save(spark, streamed, "a", batch=0, folder=tmp_path, after=drop)
    finally:
        opened(commit).write_bytes(content)
    assert savepoint_of(tmp_path, "a", epoch_ms()).state is SavepointState.FAILED


def test_there_must_be_a_batch(streamed: ReadClicks, tmp_path: Path) -> None:
    with pytest.raises(NothingToSave, match="it never ran"):
        read_committed_batch(Stage.set_up(tmp_path, clicks_spec()).stream_home)
    with pytest.raises(NothingToSave, match="batch 99"):
        read_committed_batch(streamed.stage.stream_home, 99)
