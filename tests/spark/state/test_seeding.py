"""A lineage that begins with a state: killed at any step, or given a wrong one, it leaves the stream as it was."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionizer.checkpoint.log_entries import EVENTS, read_begun_batch, read_last_commit, read_planned_batch
from sessionizer.core.definition.rules import Clock
from sessionizer.errors import HalfWrittenBatch, UnfaithfulState
from sessionizer.home.names import STREAMED
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.spark.internals.delta_log import last_version
from sessionizer.spark.state.lineages.new_lineage import DividedEvents, pack
from sessionizer.spark.state.open_events import FirstLog, KeptState, keep_logs
from sessionizer.state.lineages.origin import ORIGIN_FILE
from sessionizer.stream_spec.decisions import document_of
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import landed
from support.places import opened
from support.processes.in_process import catch_up, drain
from support.processes.kafka_broker import KafkaBroker
from support.streams.changing_stream import (
    conflicts_defined,
    conflicts_in,
    late_defined,
    late_in,
    sessions_defined,
    sessions_in,
)
from support.streams.click_files import known_rows, write_click_files
from support.streams.kafka_clicks import Brought, brought_to_delta, brought_to_kafka
from support.streams.stage import Stage, clicks_spec
from support.streams.strategies import ALL_MODES, Log, examples_of, logs
from support.verbs.reseeded_stream import reseed, tell_reseeded


@pytest.fixture(scope="module")
def half_read(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A stopped stream with open sessions. What is refused leaves it as it was, what is not has it go on."""
    stage = Stage.begun(tmp_path_factory.mktemp("half-read"), clicks_spec())
    write_click_files(stage.feed, files=3)
    catch_up(spark, stage)
    return stage


def lineages(stage: Stage) -> set[str]:
    return {folder.name for folder in opened(stage.stream_home.lineages).iterdir()}


def test_a_state_that_came_out_wrong_is_not_gone_on_with(
    spark: SparkSession, half_read: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_one_share(divided: DividedEvents, folder: DataPath) -> None:
        (row,) = divided.shares.limit(1).collect()
        pack(replace(divided, shares=divided.shares.where(divided.shares["blob"] != row["blob"])), folder)

    monkeypatch.setattr("sessionizer.spark.state.lineages.new_lineage.pack", without_one_share)
    half_read.write_spec({**clicks_spec(), "key_groups": 3})
    before = half_read.lineage, lineages(half_read)
    with pytest.raises(UnfaithfulState, match=r"key group \d .* \d+ open events .* \d+"):
        reseed(spark, half_read)
    half_read.write_spec(clicks_spec())
    assert (half_read.lineage, lineages(half_read)) == before


def test_a_state_that_lost_something_on_its_way_is_not_gone_on_with(
    spark: SparkSession, half_read: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_one_group(spark: SparkSession, state: KeptState) -> FirstLog:
        whole = keep_logs(spark, state)
        (row,) = whole.rows.select("key_group").limit(1).collect()
        return FirstLog(whole.rows.where(whole.rows["key_group"] != row["key_group"]), whole.blobs)

    monkeypatch.setattr("sessionizer.spark.state.lineages.new_lineage.keep_logs", without_one_group)
    before = half_read.lineage, lineages(half_read)
    with pytest.raises(UnfaithfulState, match=r"key group \d .* \d+ blobs .* 0"):
        reseed(spark, half_read)
    assert (half_read.lineage, lineages(half_read)) == before


def test_what_is_open_is_known_before_the_first_batch(spark: SparkSession, half_read: Stage) -> None:
    home, old = half_read.stream_home, str(half_read.lineage)
    before = OpenSessions(home.lineage(old).open_sessions)
    last = read_last_commit(half_read.checkpoint)
    lineage = reseed(spark, half_read)
    now = OpenSessions(home.lineage(lineage).open_sessions)
    assert 0 < now.total <= before.total
    assert now.latest_due_ms is not None
    assert before.latest_due_ms is not None
    assert now.latest_due_ms <= before.latest_due_ms
    origin = ORIGIN_FILE.of(home, lineage).require()
    assert origin is not None
    assert (origin.verb, origin.parent, origin.batch_id) == ("rescale", old, last)


def cut_short_after_writing(spark: SparkSession, stage: Stage) -> None:
    """Undo what came after the last batch that wrote, and that one's commit. A batch without data writes nothing."""
    log = CheckpointLog(stage.checkpoint)
    written = max(last_version(spark, uri_of(stage.table(name)), str(stage.lineage)) for name in STREAMED)
    for batch in sorted((each.batch_id for each in log.committed()), reverse=True):
        if batch >= written:
            log.forget_last_commit()
        if batch > written:
            log.forget_last_offsets()
    assert (read_begun_batch(stage.checkpoint), read_last_commit(stage.checkpoint)) == (written, written - 1)


def test_a_batch_that_is_half_written_is_finished_first(spark: SparkSession, half_read: Stage) -> None:
    drain(spark, half_read)
    expected = landed(half_read)
    cut_short_after_writing(spark, half_read)
    before = half_read.lineage
    with pytest.raises(HalfWrittenBatch):
        reseed(spark, half_read)
    assert half_read.lineage == before
    catch_up(spark, half_read)
    assert landed(half_read) == expected


ROWS = 600
PARTS = 3


@pytest.fixture
def kafka(kafka_broker: KafkaBroker, kafka_topic: str) -> Brought:
    return brought_to_kafka(kafka_broker, kafka_topic)


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Brought:
    return brought_to_delta(spark, tmp_path)


def stream_of(source: dict[str, Any], root: Path) -> Stage:
    """A stream over the source, which has not read anything yet."""
    stage = Stage.set_up(root, {**clicks_spec(), "source": source})
    stage.stream_home.prepare()
    start_lineage(stage.stream_home, spec=LineageSpec(document_of(stage.spec())))
    return stage


@pytest.mark.long
@pytest.mark.parametrize("kind", ["kafka", "delta"])
def test_the_source_goes_on_where_it_stood(
    spark: SparkSession, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    source, bring = request.getfixturevalue(kind)
    moved, steady = stream_of(source, tmp_path / "moved"), stream_of(source, tmp_path / "steady")
    rows = known_rows(ROWS)
    size = ROWS // PARTS
    for part in range(PARTS):
        bring(rows[part * size : (part + 1) * size])
        if part:
            before = read_planned_batch(moved.checkpoint, read_last_commit(moved.checkpoint) or 0).ends[EVENTS]
            moved.write_spec({**clicks_spec(), "source": source, "key_groups": 4 + part})
            reseed(spark, moved, partitions=1 + part)
            assert read_planned_batch(moved.checkpoint, 0).ends[EVENTS] == before
        for stage in (moved, steady):
            catch_up(spark, stage)
    for stage in (moved, steady):
        drain(spark, stage)
    expected = landed(steady)
    assert expected.sessions
    assert expected.late
    assert landed(moved) == expected


OF_EACH_MODE = 2


def rich_logs(mode: Clock, count: int) -> list[Log]:
    """Logs of many events in several batches, among which ids repeat."""
    found = [log for log in examples_of(logs([mode], drained=True), 300) if is_rich(log)]
    assert len(found) >= count
    return found[:count]


def is_rich(log: Log) -> bool:
    events = [event for batch in log.batches for event in batch.events]
    ids = {(event.key, event.event_id) for event in events}
    return len(events) >= 20 and len(events) - len(ids) >= 5 and len(log.batches) >= 7


NUMBERS = [(0, 2), *((number, 4) for number in range(OF_EACH_MODE))]
"""Which log, and how many drivers go through it, each but the first in a lineage that was seeded."""
CASES = [(mode, *number) for mode in ALL_MODES for number in NUMBERS]


@pytest.mark.long
@pytest.mark.parametrize(("mode", "number", "drivers"), CASES)
def test_a_stream_that_was_reseeded_equals_the_definition(
    spark: SparkSession, tmp_path: Path, mode: Clock, number: int, drivers: int
) -> None:
    log = rich_logs(mode, OF_EACH_MODE)[number]
    told = tell_reseeded(spark, log, seed=number, drivers=drivers, root=tmp_path)
    outcome = told.outcome()
    assert len(told.editions) == drivers
    assert not outcome.open_events, "the last batch drains"
    assert sessions_in(told) == sessions_defined(told, outcome)
    assert late_in(told) == late_defined(outcome)
    assert conflicts_in(told) == conflicts_defined(outcome)
