"""A lineage that begins with a state: killed at any step, or given a wrong one, it leaves the stream as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sessionizer.checkpoint.batch_logs import read_begun_batch, read_last_commit
from sessionizer.core.definition.rules import Clock
from sessionizer.errors import HalfWrittenBatch, UnfaithfulState
from sessionizer.home.names import STREAMED
from sessionizer.home.roots import uri_of
from sessionizer.lineage.open_sessions import OpenSessions
from sessionizer.spark.internals.delta_log import last_version
from sessionizer.spark.state.group_logs import FirstLog, keep_logs
from sessionizer.spark.state.lineages.initial_log import DividedEvents, pack
from sessionizer.state.lineages.origin import ORIGIN_FILE
from sessionizer.state.lineages.state_transfer import LineageStep
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import landed
from support.places import opened
from support.processes.in_process import catch_up, drain
from support.streams.changing_stream import sessions_defined, sessions_in
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec
from support.streams.strategies import examples_of, logs
from support.verbs.reseeded_stream import reseed, tell_reseeded

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.home.roots import DataPath
    from sessionizer.spark.state.open_events import KeptState

BEFORE_IT_COUNTS = (LineageStep.MADE, LineageStep.SEEDED, LineageStep.POSITIONED, LineageStep.RECORDED)


@pytest.mark.long
@pytest.mark.parametrize("steps", [BEFORE_IT_COUNTS[-1:], BEFORE_IT_COUNTS])
def test_a_kill_at_any_step_leaves_the_stream_as_it_was(
    spark: SparkSession, tmp_path: Path, steps: tuple[LineageStep, ...]
) -> None:
    found = examples_of(logs([Clock.EVENT_TIME], drained=True), 100)
    log = next(log for log in found if sum(len(batch.events) for batch in log.batches) >= 15)
    told = tell_reseeded(spark, log, seed=3, drivers=2, root=tmp_path, killed_at=steps)
    assert sessions_in(told) == sessions_defined(told, told.outcome())
    lineages = list((tmp_path / "home" / "streams" / "clicks" / "lineages").iterdir())
    assert len(lineages) == 2, "what was killed is gone"


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

    monkeypatch.setattr("sessionizer.spark.state.lineages.initial_log.pack", without_one_share)
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
