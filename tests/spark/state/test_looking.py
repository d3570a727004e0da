"""What is told of a state is what the definition says is open after that batch; and looking writes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.cli.looking.look import Look
from sessionizer.core.definition.oracle import Outcome, sessionize
from sessionizer.deployment.running_spec import new_record
from sessionizer.errors import InvalidSpec, NothingToShow
from sessionizer.lineage.kept_spec import write_lineage_spec
from sessionizer.spark.query.assembly import rules_of
from sessionizer.state.lineages.retained import retained_batch
from support.expected.checkpoint_log import CheckpointLog
from support.expected.folder_digest import folder_digest
from support.expected.landed import batches_of
from support.processes.in_process import catch_up
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.streams.click_files import ClickFiles

LAST, EARLIER = 2, 0


@dataclass(frozen=True, slots=True)
class Streamed:
    """A stream that has read its files, a file a batch."""

    stage: Stage
    files: ClickFiles

    def expected(self, batch_id: int) -> Outcome:
        batches = batches_of(CheckpointLog(self.stage.checkpoint).committed()[: batch_id + 1], self.files)
        return sessionize(batches, rules_of(self.stage.spec()))


@pytest.fixture(scope="module")
def streamed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Streamed:
    stage = Stage.set_up(tmp_path_factory.mktemp("looked-into"), clicks_spec())
    files = write_click_files(stage.feed, LAST + 1, rate=12)
    catch_up(spark, stage)
    assert stage.lineage
    write_lineage_spec(stage.stream_home, stage.lineage, new_record(stage.stream_home, stage.spec()))
    return Streamed(stage, files)


@pytest.fixture(params=[LAST, EARLIER])
def batch_id(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def look(spark: SparkSession, streamed: Streamed, batch_id: int | None = None) -> Look:
    return Look.of(spark, retained_batch(streamed.stage.stream_home, batch_id))


def test_a_key_shows_its_open_sessions_event_by_event(spark: SparkSession, streamed: Streamed, batch_id: int) -> None:
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
    assert f"key {key}, in key group {shown['key_group']}" in lines[1]
    assert all(any(event in line for line in lines) for event in found)


def test_a_key_of_which_nothing_is_open(spark: SparkSession, streamed: Streamed) -> None:
    shown, lines = look(spark, streamed).key("nobody's key")
    assert shown["sessions"] == []
    assert lines[-1].endswith("no open sessions")


def test_all_groups_together_hold_what_is_open(spark: SparkSession, streamed: Streamed, batch_id: int) -> None:
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


def test_one_group_holds_its_share(spark: SparkSession, streamed: Streamed) -> None:
    whole, _ = look(spark, streamed).groups(None, 3)
    one, _ = look(spark, streamed).groups(2, 3)
    assert one["groups"] == [group for group in whole["groups"] if group["key_group"] == 2]
    with pytest.raises(InvalidSpec, match="from 0 to 3"):
        look(spark, streamed).groups(4, 3)


def test_looking_writes_nothing(spark: SparkSession, streamed: Streamed) -> None:
    checkpoint = Path(str(streamed.stage.checkpoint))
    before = folder_digest(checkpoint)
    look(spark, streamed, EARLIER).groups(None, 3)
    look(spark, streamed).key("nobody's key")
    assert folder_digest(checkpoint) == before


def test_a_batch_that_is_not_kept_is_refused(streamed: Streamed) -> None:
    with pytest.raises(NothingToShow, match="keeps are 0 to"):
        retained_batch(streamed.stage.stream_home, 99)
    with pytest.raises(NothingToShow, match="has no lineage other"):
        retained_batch(streamed.stage.stream_home, None, "other")
