"""What is told of a state is what the definition says is open after that batch; and looking writes nothing."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner
from upath import UPath

from sessionizer.checkpoint.log_entries import list_committed_batches, next_watermark, read_planned_batch
from sessionizer.cli.app import app
from sessionizer.cli.inspect.batch_state import BatchState, open_events, side_of
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.outcome import Outcome
from sessionizer.core.definition.rules import Clock
from sessionizer.core.key_group.merging import merge
from sessionizer.core.wire.canonical import KEY_GROUP, log_of
from sessionizer.core.wire.schema import event_schema, group_labels
from sessionizer.errors import InvalidSpec, NothingToShow
from sessionizer.home import names
from sessionizer.home.roots import folder_at
from sessionizer.inspection.inspect import inspect
from sessionizer.inspection.log_of_key import group_of_key, read_log_of_key
from sessionizer.spark.query.assembly import group_of, rules_of
from sessionizer.spark.state.contents_reader import (
    compare_states,
    describe_kept_state,
    read_sessions_in_files,
)
from sessionizer.spark.state.open_events import (
    KeptState,
    log_blobs,
    read_open_events,
    read_state_timeouts,
    reading_state,
)
from sessionizer.spark.state.restores.table_rows import count_store_rows
from sessionizer.state.lineages.committed_batch import find_retained_batch
from support.expected.checkpoint_log import CheckpointLog
from support.expected.file_accesses import folder_digest, settled_digest
from support.expected.landed import batches_of, table_rows
from support.places import opened
from support.processes.in_process import catch_up, drain
from support.stores.control_fixtures import ON_A_PATH_AND_HDFS
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.plain_rows import (
    open_event_of_oracle,
    open_event_of_record,
    records,
    session_of_oracle,
    session_of_record,
    session_of_row,
)
from support.streams.stage import Stage, clicks_spec
from support.streams.strategies import ALL_MODES, Log, examples_of, logs
from support.streams.streamed_log import Pace, Setting, Streamed, as_specified, batches_that_bring_something, stream

LAST, EARLIER = 2, 0


@dataclass(frozen=True, slots=True)
class StreamedContentsReader:
    stage: Stage
    files: ClickFiles

    def expected(self, batch_id: int) -> Outcome:
        batches = batches_of(CheckpointLog(self.stage.checkpoint).committed()[: batch_id + 1], self.files)
        return sessionize(batches, rules_of(self.stage.spec()))


@pytest.fixture(scope="module")
def streamed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamedContentsReader:
    return streamed_at(spark, tmp_path_factory.mktemp("looked-into"))


def streamed_at(spark: SparkSession, root: Path, data: str | None = None) -> StreamedContentsReader:
    stage = Stage.set_up(root, clicks_spec(), data=data)
    files = write_click_files(stage.feed, LAST + 1, rate=12)
    catch_up(spark, stage)
    stage.record_spec()
    return StreamedContentsReader(stage, files)


@pytest.fixture(params=[LAST, EARLIER])
def batch_id(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def look(spark: SparkSession, streamed: StreamedContentsReader, batch_id: int | None = None) -> BatchState:
    return BatchState.of(spark, find_retained_batch(streamed.stage.stream_home, batch_id))


def test_a_key_shows_its_open_sessions_event_by_event(
    spark: SparkSession, streamed: StreamedContentsReader, batch_id: int
) -> None:
    expected = streamed.expected(batch_id)
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


def test_a_key_of_which_nothing_is_open(spark: SparkSession, streamed: StreamedContentsReader) -> None:
    shown, lines = look(spark, streamed).key("nobody's key")
    assert shown["sessions"] == []
    assert len(lines) == 2, "one about the batch and one about the key"


@pytest.mark.parametrize("key", ["", "a", "ünï-€-😀", "u00957526", "x" * 31, "y" * 32, "z" * 100])
def test_a_key_belongs_to_the_group_that_spark_gives_it(spark: SparkSession, key: str) -> None:
    for key_groups in (1, 4, 7, 256):
        row = spark.range(1).select(group_of(F.lit(key), key_groups).alias("group")).first()
        assert row is not None
        assert group_of_key(key, key_groups) == row.group


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
        state = describe_kept_state(find_retained_batch(home, batch))
        with reading_state(spark):
            rows = log_blobs(spark, state).collect()
        for group, key in groups.items():
            by_spark = [bytes(row.blob) for row in rows if row.label == group_labels(4)[group]]
            assert read_log_of_key(stage.checkpoint, batch, 4, key) == (group, by_spark), batch
            lengths.add(len(by_spark))
    assert {0, 1, 2} <= lengths


@pytest.mark.parametrize("damage", ["cut", "gone", "flipped"])
def test_a_state_whose_files_do_not_suffice_is_left_to_spark(
    streamed: StreamedContentsReader, tmp_path: Path, damage: str
) -> None:
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


def test_all_groups_together_hold_what_is_open(
    spark: SparkSession, streamed: StreamedContentsReader, batch_id: int
) -> None:
    expected = streamed.expected(batch_id)
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


def test_one_group_holds_its_share(spark: SparkSession, streamed: StreamedContentsReader) -> None:
    whole, _ = look(spark, streamed).groups(None, 3)
    one, _ = look(spark, streamed).groups(2, 3)
    assert one["groups"] == [group for group in whole["groups"] if group["key_group"] == 2]
    with pytest.raises(InvalidSpec, match="from 0 to 3"):
        look(spark, streamed).groups(4, 3)


def test_looking_writes_nothing(spark: SparkSession, streamed: StreamedContentsReader) -> None:
    checkpoint = Path(str(streamed.stage.checkpoint))
    before = settled_digest(checkpoint)
    look(spark, streamed, EARLIER).groups(None, 3)
    look(spark, streamed).key("nobody's key")
    assert folder_digest(checkpoint) == before


def test_two_batches_differ_by_what_came_and_what_went(spark: SparkSession, streamed: StreamedContentsReader) -> None:
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


def test_what_is_no_side_is_refused(streamed: StreamedContentsReader) -> None:
    home = streamed.stage.stream_home
    with pytest.raises(NothingToShow, match=r"no lineage or\b"):
        side_of(home, home.savepoints, "20261123T000000-aaaaaa")
    with pytest.raises(NothingToShow, match="no batch, lineage"):
        side_of(home, home.savepoints, "a/b")


def test_a_timeline_tells_of_each_batch_without_spark(streamed: StreamedContentsReader) -> None:
    stage = streamed.stage
    data = () if stage.data is None else ("--data", stage.data)
    arguments = ["state", "timeline", "clicks", "--home", str(stage.home), *data]
    batches = json.loads(CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False).stdout)["batches"]
    committed = CheckpointLog(stage.checkpoint).committed()
    assert [batch["batch_id"] for batch in batches] == list(range(len(committed)))
    assert all(batch["next_watermark_ms"] >= batch["watermark_ms"] for batch in batches)
    read = [batch["read"]["0"] for batch in batches]
    assert read.count("1 file") == LAST + 1
    closed = len(streamed.expected(len(committed) - 1).closed)
    emitted = sum(batch["rows"].get("sessions", 0) for batch in batches)
    # what is final and waits for its turn is not emitted yet
    assert 0 < emitted <= closed
    assert all(batch["change_bytes"] > 0 for batch in batches[:LAST])
    shown = CliRunner().invoke(app, [*arguments, "--last", "2"], catch_exceptions=False)
    assert len(shown.stdout.splitlines()) == 5


def test_our_own_checkpoint_is_one_of_sparks(spark: SparkSession, streamed: StreamedContentsReader) -> None:
    found = inspect(Path(str(streamed.stage.checkpoint)), deep=True)
    assert found is not None
    told = found.to_json()
    assert [operator["kind"] for operator in told["operators"]] == ["transformWithState in Python"]
    assert [source["kind"] for source in told["sources"]] == ["files", "not read yet"]
    assert told["findings"] == []
    rows = {each["variable"]: each["rows"] for each in count_store_rows(spark, found)}
    groups = {group["key_group"] for group in look(spark, streamed).groups(None, 1)[0]["groups"]}
    assert (rows["plan"], rows["timers"], rows["timeouts"]) == (len(groups), len(groups), 0)
    assert rows["log"] >= len(groups)


def test_a_batch_that_is_not_kept_is_refused(streamed: StreamedContentsReader) -> None:
    with pytest.raises(NothingToShow) as no_batch:
        find_retained_batch(streamed.stage.stream_home, 99)
    assert "99" in no_batch.value.cause
    assert str(streamed.stage.lineage) in no_batch.value.cause
    with pytest.raises(NothingToShow, match="no lineage other"):
        find_retained_batch(streamed.stage.stream_home, None, "other")


@pytest.mark.long
@ON_A_PATH_AND_HDFS
def test_it_looks_the_same_wherever_the_data_is(spark: SparkSession, tmp_path: Path, data: str | None) -> None:
    there = streamed_at(spark, tmp_path, data)
    for batch_id in (LAST, EARLIER):
        test_a_key_shows_its_open_sessions_event_by_event(spark, there, batch_id)
        test_all_groups_together_hold_what_is_open(spark, there, batch_id)
    test_two_batches_differ_by_what_came_and_what_went(spark, there)
    test_a_timeline_tells_of_each_batch_without_spark(there)
    found = inspect(there.stage.checkpoint, deep=True)
    assert found is not None
    assert found.to_json()["findings"] == []


PAYLOAD = [pa.field("action", pa.string()), pa.field("amount", pa.int64())]
LOGS_OF_A_MODE = 2
SPREAD = 11


@dataclass(frozen=True, slots=True)
class Case:
    log: Log
    setting: Setting


@cache
def cases() -> list[Case]:
    """Draw the logs when the first one runs: every worker of a run imports this file."""
    return [case for mode in ALL_MODES for case in cases_of(mode)]


def cases_of(mode: Clock) -> list[Case]:
    """Not drained, and with several batches that bring something: else there is little to save."""
    wanted = logs([mode], drained=False).filter(lambda log: len(batches_that_bring_something(log)) > 2)
    chance = random.Random(str(mode))
    return [case_of(log, chance) for log in examples_of(wanted, LOGS_OF_A_MODE * SPREAD)[::SPREAD]]


def case_of(log: Log, chance: random.Random) -> Case:
    paces = tuple(chance.choice((Pace.AT_ONCE, Pace.IN_QUIET)) for _ in batches_that_bring_something(log))
    return Case(as_specified(log), Setting(chance.choice((2, 3)), chance.choice((1, 30)), paces))


def param_of_log(number: int) -> Any:
    return pytest.param(number, marks=pytest.mark.long if number else ())


@pytest.fixture(scope="module")
def streamed_of_open_events(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], tuple[Streamed, Path]]:
    done: dict[int, tuple[Streamed, Path]] = {}

    def run(number: int) -> tuple[Streamed, Path]:
        if number not in done:
            home = tmp_path_factory.mktemp(f"log-{number}-")
            done[number] = stream(spark, cases()[number].log, cases()[number].setting, home), home / "checkpoint"
        return done[number]

    return run


def test_the_logs_have_something_open() -> None:
    open_events = [len(sessionize(case.log.batches, case.log.rules).open_events) for case in cases()]
    assert sum(count > 0 for count in open_events) > len(cases()) // 2
    assert {case.log.rules.clock for case in cases()} == set(ALL_MODES)


@pytest.mark.parametrize("number", [param_of_log(number) for number in range(LOGS_OF_A_MODE * len(ALL_MODES))])
def test_the_rows_of_a_batch_are_what_is_open_after_it(
    spark: SparkSession, streamed_of_open_events: Callable[[int], tuple[Streamed, Path]], number: int
) -> None:
    (outcome, checkpoint), case = streamed_of_open_events(number), cases()[number]
    last = len(outcome.batches) - 1
    for batch_id in sorted({last // 2, last}):
        assert_open(spark, outcome, case, state_of(checkpoint, case, batch_id))


def state_of(checkpoint: Path, case: Case, batch_id: int) -> KeptState:
    events = event_schema(PAYLOAD, case.log.rules.clock)
    return KeptState(UPath(checkpoint), batch_id, case.setting.key_groups, events)


def assert_open(spark: SparkSession, outcome: Streamed, case: Case, state: KeptState) -> None:
    batches = outcome.batches[: state.batch_id + 1]
    expected = sessionize(batches, case.log.rules)
    arrivals = {batch.arrived_at_ms for batch in outcome.batches}
    with reading_state(spark):
        rows = read_open_events(spark, state).toArrow()
        timeouts = dict(read_state_timeouts(spark, state))
    of_groups = [rows.filter(pa.compute.equal(rows.column(KEY_GROUP), group)) for group in range(state.key_groups)]
    merged = [merge(log_of(part), expected.watermark_ms, case.log.rules, PAYLOAD) for part in of_groups if len(part)]
    open_events = [row for part in merged for table in part.open_events for row in records(table)]
    assert Counter(map(open_event_of_record, open_events)) == Counter(map(open_event_of_oracle, expected.open_events))
    emitted = Counter(
        session_of_row(row, arrivals)
        for runs in outcome.runs[: state.batch_id + 1]
        for row in runs[-1].of_table.get(names.SESSIONS, [])
    )
    left = Counter(session_of_record(row, arrivals) for part in merged for row in records(part.sessions))
    assert emitted + left == Counter(map(session_of_oracle, expected.closed))
    changed = {client: ms for batch in batches for client, ms in batch.timeout_changes.items()}
    assert timeouts == ({} if case.log.rules.clock is Clock.NONE else changed)


@pytest.mark.parametrize("number", [param_of_log(number) for number in range(LOGS_OF_A_MODE)])
def test_a_commit_tells_the_watermark_of_the_next_batch(
    streamed_of_open_events: Callable[[int], tuple[Streamed, Path]], number: int
) -> None:
    """What a savepoint notes is what Spark gives the batch that follows, and what the definition says it is."""
    outcome, checkpoint = streamed_of_open_events(number)
    committed = [batch.batch_id for batch in CheckpointLog(checkpoint).committed()]
    told = [next_watermark(checkpoint, batch_id) for batch_id in committed]
    assert len(set(told)) > 1
    assert told[:-1] == [read_planned_batch(checkpoint, batch_id).watermark_ms for batch_id in committed[1:]]
    nothing_more = replace(outcome.batches[-1], events=(), floor_ms=None, timeout_changes={})
    assert told[-1] == max(0, sessionize([*outcome.batches, nothing_more], cases()[number].log.rules).watermark_ms)


LOGS, SPREAD_OF_CHANGE_FEED = 4, 11
VALUES = ("plan", "timeouts", "timeouts_fingerprint")
Kept = dict[int, list[Any]]
"""Of each key group what a variable holds: the elements of a list, or one value."""


def some_logs() -> list[Log]:
    wanted = logs([Clock.EVENT_TIME], drained=False).filter(lambda log: len(batches_that_bring_something(log)) > 3)
    return [as_specified(log) for log in examples_of(wanted, LOGS * SPREAD_OF_CHANGE_FEED)[::SPREAD_OF_CHANGE_FEED]]


@pytest.fixture(scope="module")
def checkpoints(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, int]]:
    chance, done = random.Random(0), []
    for log in some_logs():
        home = tmp_path_factory.mktemp("fed-")
        paces = tuple(chance.choice((Pace.AT_ONCE, Pace.IN_QUIET)) for _ in batches_that_bring_something(log))
        # a step of one merges in most batches, a long one appends
        streamed = stream(spark, log, Setting(2, chance.choice((1, 60_000)), paces), home)
        done.append((home / "checkpoint", len(streamed.batches) - 1))
    return done


def reader(spark: SparkSession, checkpoint: Path, variable: str, **options: str | int) -> DataFrame:
    asked = spark.read.format("statestore").option("stateVarName", variable).options(**options)
    return asked.load(str(checkpoint))


def state(spark: SparkSession, checkpoint: Path, variable: str, batch_id: int) -> Kept:
    kept: Kept = {}
    for row in reader(spark, checkpoint, variable, batchId=batch_id).collect():
        kept.setdefault(row.key.key_group, []).append(row[held_in(variable)])
    return kept


def changes(spark: SparkSession, checkpoint: Path, variable: str, first: int, last: int) -> list[Row]:
    fed = reader(spark, checkpoint, variable, readChangeFeed="true", changeStartBatchId=first, changeEndBatchId=last)
    return fed.collect()


def held_in(variable: str) -> str:
    return "list_element" if variable == "log" else "value"


def followed(before: Kept, fed: Iterable[Row], column: str) -> Kept:
    kept = {group: [*values] for group, values in before.items()}
    for row in fed:
        if row.change_type == "append":
            kept.setdefault(row.key.key_group, []).append(row[column])
        elif row.change_type == "update":
            kept[row.key.key_group] = [row[column]]
        else:
            assert row.change_type == "delete"
            kept.pop(row.key.key_group, None)
    return kept


@pytest.mark.long
def test_a_state_and_the_changes_after_it_are_the_later_state(
    spark: SparkSession, checkpoints: list[tuple[Path, int]]
) -> None:
    kinds: Counter[str] = Counter()
    for checkpoint, last in checkpoints:
        for variable in ("log", *VALUES):
            later = state(spark, checkpoint, variable, last)
            for since in {0, last // 2}:
                fed = changes(spark, checkpoint, variable, since + 1, last)
                before = state(spark, checkpoint, variable, since)
                assert followed(before, fed, held_in(variable)) == later, (checkpoint, variable, since)
                kinds.update(f"{variable} {row.change_type}" for row in fed)
    assert {"log append", "log update", "log delete", "plan update"} <= kinds.keys()
