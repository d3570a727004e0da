"""What is told of a state is what the definition says is open after that batch; and looking writes nothing."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from sessionizer.checkpoint.log_entries import list_committed_batches
from sessionizer.cli.app import app
from sessionizer.cli.inspect.batch_state import BatchState, open_events, side_of
from sessionizer.core.wire.schema import group_labels
from sessionizer.errors import InvalidSpec, NothingToShow
from sessionizer.home.roots import folder_at
from sessionizer.inspection.inspect import inspect
from sessionizer.inspection.log_of_key import group_of_key, read_log_of_key
from sessionizer.spark.query.assembly import group_of
from sessionizer.spark.state.contents_reader import (
    compare_states,
    read_sessions_in_files,
)
from sessionizer.spark.state.open_events import (
    describe_state,
    log_blobs,
    reading_state,
)
from sessionizer.spark.state.restores.table_rows import count_store_rows
from sessionizer.state.lineages.committed_batch import find_retained_batch
from support.expected.checkpoint_log import CheckpointLog
from support.expected.file_accesses import folder_digest, settled_digest
from support.expected.landed import table_rows
from support.places import known, opened
from support.processes.in_process import ReadClicks, drain, read_clicks
from support.stores.control_fixtures import ON_A_PATH_AND_HDFS
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

LAST, EARLIER = 2, 0


@pytest.fixture(scope="module")
def streamed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ReadClicks:
    return read_clicks(spark, tmp_path_factory.mktemp("looked-into"), LAST + 1)


@pytest.fixture(params=[LAST, EARLIER])
def batch_id(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def look(spark: SparkSession, streamed: ReadClicks, batch_id: int | None = None) -> BatchState:
    return BatchState.of(spark, find_retained_batch(streamed.stage.stream_home, batch_id))


def test_a_key_shows_its_open_sessions_event_by_event(spark: SparkSession, streamed: ReadClicks, batch_id: int) -> None:
    expected = streamed.outcome(batch_id)
    open_events = Counter(event.event.key for event in expected.open_events)
    key, _ = open_events.most_common(1)[0]
    ids = {event.event.event_id for event in expected.open_events if event.event.key == key}
    shown, lines = look(spark, streamed, batch_id).key(key)
    found = [event["event_id"] for session in shown["sessions"] for event in session["events"]]
    # what is final but waits for its turn is there, too
    waiting = {e.event_id for s in expected.closed for e in s.events if s.key == key}
    assert ids <= set(found) <= ids | waiting
    assert len(found) == len(set(found))
    assert all(session["key"] == key and "would_close_reason" in session for session in shown["sessions"])
    assert f"key {key}, " in lines[1]
    assert f" group {shown['key_group']}" in lines[1]
    assert all(any(event in line for line in lines) for event in found)


def test_a_key_belongs_to_the_group_that_spark_gives_it(spark: SparkSession) -> None:
    keys, divisions = ["", "a", "ünï-€-😀", "u00957526", "x" * 31, "y" * 32, "z" * 100], (1, 4, 7, 256)
    rows = spark.createDataFrame([(key,) for key in keys], "key string")
    found = rows.select("key", *(group_of(F.col("key"), key_groups) for key_groups in divisions)).collect()
    assert [(row[0], *row[1:]) for row in found] == [
        (key, *(group_of_key(key, key_groups) for key_groups in divisions)) for key in keys
    ]


def test_files_tell_what_spark_reads_of_every_group_in_every_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The logs have merges, tombstones and removed blobs."""
    stage = Stage.set_up(tmp_path, clicks_spec(gap_timeout="5 seconds", emit_every="2 seconds"))
    write_click_files(stage.feed, 5, rate=12)
    drain(spark, stage)
    stage.record_spec()
    home, lengths = stage.stream_home, set[int]()
    groups = {group_of_key(key, 4): key for key in map(str, range(40))}
    assert groups.keys() == set(range(4))
    for batch in sorted(list_committed_batches(stage.checkpoint)):
        state = describe_state(find_retained_batch(home, batch))
        with reading_state(spark):
            rows = log_blobs(spark, state).collect()
        for group, key in groups.items():
            by_spark = [bytes(row.blob) for row in rows if row.label == group_labels(4)[group]]
            assert read_log_of_key(stage.checkpoint, batch, 4, key) == (group, by_spark), batch
            lengths.add(len(by_spark))
    assert {0, 1, 2} <= lengths


@pytest.mark.parametrize("damage", ["cut", "gone", "flipped"])
def test_a_state_whose_files_do_not_suffice_is_left_to_spark(streamed: ReadClicks, tmp_path: Path, damage: str) -> None:
    found = find_retained_batch(streamed.stage.stream_home)
    copytree(opened(found.checkpoint), tmp_path / "copy")
    copied = replace(found, checkpoint=folder_at(str(tmp_path / "copy")))
    key = next(row["key"] for row in table_rows(streamed.stage.table("sessions")))
    assert read_sessions_in_files(copied, key) == read_sessions_in_files(found, key) is not None
    for file in tmp_path.rglob("*.changelog"):
        content = file.read_bytes()
        if damage == "gone":
            file.unlink()
        else:
            file.write_bytes(content[:-20] if damage == "cut" else content[:8] + b"?" + content[9:])
    assert read_sessions_in_files(copied, key) is None


def test_all_groups_together_hold_what_is_open(spark: SparkSession, streamed: ReadClicks, batch_id: int) -> None:
    expected = streamed.outcome(batch_id)
    shown, lines = look(spark, streamed, batch_id).groups(None, 1000)
    keys = {weight["key"]: weight for group in shown["groups"] for weight in group["heaviest"]}
    assert {event.event.key for event in expected.open_events} <= set(keys)
    of_groups: dict[str, Any] = {group["key_group"]: group for group in shown["groups"]}
    assert sum(group["events"] for group in shown["groups"]) == sum(weight["events"] for weight in keys.values())
    assert sum(group["events"] for group in shown["groups"]) >= len(expected.open_events)
    assert sum(group["keys"] for group in shown["groups"]) == len(keys)
    # one timer each, as the operator keeps it
    assert {group: len(each["timers"]) for group, each in of_groups.items()} == dict.fromkeys(of_groups, 1)
    assert all(each["blob_bytes"] > 0 for each in of_groups.values())
    assert any("heaviest keys" in line for line in lines)


def test_one_group_holds_its_share_and_looking_writes_nothing(spark: SparkSession, streamed: ReadClicks) -> None:
    checkpoint = Path(str(streamed.stage.checkpoint))
    before = settled_digest(checkpoint)
    whole, _ = look(spark, streamed).groups(None, 3)
    one, _ = look(spark, streamed).groups(2, 3)
    assert one["groups"] == [group for group in whole["groups"] if group["key_group"] == 2]
    with pytest.raises(InvalidSpec, match="from 0 to 3"):
        look(spark, streamed).groups(4, 3)
    look(spark, streamed, EARLIER).groups(None, 3)
    shown, lines = look(spark, streamed).key("nobody's key")
    assert shown["sessions"] == []
    assert len(lines) == 2, "one about the batch and one about the key"
    assert folder_digest(checkpoint) == before


def test_two_batches_differ_by_what_came_and_what_went(spark: SparkSession, streamed: ReadClicks) -> None:
    home = streamed.stage.stream_home
    sides = [side_of(home, home.savepoints, text) for text in (str(EARLIER), f"{streamed.stage.lineage}:{LAST}")]
    with reading_state(spark):
        frames = [open_events(spark, side) for side in sides]
        before, now = ({(row.key, row.event_id, row.clock_ms) for row in frame.collect()} for frame in frames)
        found = compare_states(frames[0], frames[1], 5)
    assert (found.events_only_before, found.events_only_now) == (len(before - now), len(now - before))
    assert found.events_in_both == len(before & now)
    keys_before, keys_now = ({key for key, *_ in events} for events in (before, now))
    assert (found.keys_only_before, found.keys_only_now) == (len(keys_before - keys_now), len(keys_now - keys_before))
    assert found.keys_changed + found.keys_same == len(keys_before & keys_now)
    for each in found.keys:
        assert each.only_now == len({event for event in now - before if event[0] == each.key})
        assert each.only_before == len({event for event in before - now if event[0] == each.key})


def test_what_is_no_side_and_what_is_not_kept_is_refused(streamed: ReadClicks) -> None:
    home = streamed.stage.stream_home
    with pytest.raises(NothingToShow, match=r"no lineage or\b"):
        side_of(home, home.savepoints, "20261123T000000-aaaaaa")
    with pytest.raises(NothingToShow, match="no batch, lineage"):
        side_of(home, home.savepoints, "a/b")
    with pytest.raises(NothingToShow) as no_batch:
        find_retained_batch(home, 99)
    assert "99" in no_batch.value.cause
    assert str(streamed.stage.lineage) in no_batch.value.cause
    with pytest.raises(NothingToShow, match="no lineage other"):
        find_retained_batch(home, None, "other")


def test_a_timeline_tells_of_each_batch_without_spark(streamed: ReadClicks) -> None:
    stage = streamed.stage
    data = () if stage.data is None else ("--data", stage.data)
    arguments = ["state", "timeline", "clicks", "--home", str(stage.home), *data]
    batches = json.loads(CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False).stdout)["batches"]
    committed = CheckpointLog(stage.checkpoint).committed()
    assert [batch["batch_id"] for batch in batches] == list(range(len(committed)))
    assert all(batch["next_watermark_ms"] >= batch["watermark_ms"] for batch in batches)
    read = [batch["read"]["0"] for batch in batches]
    assert read.count("1 file") == LAST + 1
    closed = len(streamed.outcome(len(committed) - 1).closed)
    emitted = sum(batch["rows"].get("sessions", 0) for batch in batches)
    # what is final and waits for its turn is not emitted yet
    assert 0 < emitted <= closed
    assert all(batch["change_bytes"] > 0 for batch in batches[:LAST])
    shown = CliRunner().invoke(app, [*arguments, "--last", "2"], catch_exceptions=False)
    assert len(shown.stdout.splitlines()) == 5


def test_our_own_checkpoint_is_one_of_sparks(spark: SparkSession, streamed: ReadClicks) -> None:
    found = known(inspect(Path(str(streamed.stage.checkpoint)), deep=True))
    told = found.to_json()
    assert [operator["kind"] for operator in told["operators"]] == ["transformWithState in Python"]
    assert [source["kind"] for source in told["sources"]] == ["files", "not read yet"]
    assert told["findings"] == []
    rows = {each["variable"]: each["rows"] for each in count_store_rows(spark, found)}
    groups = {group["key_group"] for group in look(spark, streamed).groups(None, 1)[0]["groups"]}
    assert (rows["plan"], rows["timers"], rows["timeouts"]) == (len(groups), len(groups), 0)
    assert rows["log"] >= len(groups)


@pytest.mark.long
@ON_A_PATH_AND_HDFS
def test_it_looks_the_same_wherever_the_data_is(spark: SparkSession, tmp_path: Path, data: str | None) -> None:
    there = read_clicks(spark, tmp_path, LAST + 1, data=data)
    for batch_id in (LAST, EARLIER):
        test_a_key_shows_its_open_sessions_event_by_event(spark, there, batch_id)
        test_all_groups_together_hold_what_is_open(spark, there, batch_id)
    test_two_batches_differ_by_what_came_and_what_went(spark, there)
    test_a_timeline_tells_of_each_batch_without_spark(there)
    found = known(inspect(there.stage.checkpoint, deep=True))
    assert found.to_json()["findings"] == []
