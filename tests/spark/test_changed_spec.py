"""A spec that is changed between two drivers: what holds from the next batch on, and what must not start."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from bad_clicks import line
from checkpoint_log import CheckpointLog
from driver_process import DriverProcess
from in_process import catch_up
from sessionizer.control.exit_record import read_exit
from sessionizer.control.lineage_spec import read_lineage_spec
from sessionizer.errors import DamagedFile, InvalidSpec
from sessionizer.spark.continuity import continue_lineage
from stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

WRITTEN = ("sessions", "quarantine", "late_events")
OTHER_GROUPS = {"key_groups": 5}
OTHER_GAP = {"rules": {**clicks_spec()["rules"], "gap_timeout": "31 seconds"}}
OTHER_BATCHES = clicks_spec(files_per_batch=7)


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Stage:
    """A stream whose only batch emitted a session and left an open one."""
    stage = Stage.set_up(tmp_path, clicks_spec())
    (stage.feed / "clicks.json").write_bytes(line(0, "early") + b"\n" + line(600, "late"))
    catch_up(spark, stage)
    go_on(spark, stage, {})
    return stage


def go_on(spark: SparkSession, stage: Stage, changes: dict[str, Any]) -> None:
    """What a driver does before its query starts."""
    stage.write_spec({**clicks_spec(), **changes})
    assert stage.lineage
    tables = [str(stage.table(name)) for name in WRITTEN]
    continue_lineage(spark, stage.spec(), stage.stream_home, stage.lineage, tables)


def cut_short(stage: Stage) -> int:
    """The last batch has written and not committed; returns its id."""
    log = CheckpointLog(stage.checkpoint)
    log.forget_last_commit()
    return log.begun()[-1].batch_id


def test_rules_may_change_when_every_batch_is_over(spark: SparkSession, stage: Stage) -> None:
    go_on(spark, stage, OTHER_GAP)
    assert stage.lineage
    noted = read_lineage_spec(stage.stream_home, stage.lineage)
    assert noted is not None
    assert noted["rules.gap_timeout"] == "31 seconds"


def test_another_number_of_key_groups_is_refused(spark: SparkSession, stage: Stage) -> None:
    for _ in range(2):
        with pytest.raises(InvalidSpec, match="key_groups is 5; allowed: 4, by which the state"):
            go_on(spark, stage, OTHER_GROUPS)
    go_on(spark, stage, {})


def test_other_rules_are_refused_for_a_batch_that_has_written(spark: SparkSession, stage: Stage) -> None:
    batch_id = cut_short(stage)
    with pytest.raises(InvalidSpec, match=rf"rules\.gap_timeout is '31 seconds'; .* '30 seconds' .* batch {batch_id},"):
        go_on(spark, stage, OTHER_GAP)
    go_on(spark, stage, OTHER_BATCHES)
    catch_up(spark, stage)
    go_on(spark, stage, OTHER_GAP)


def test_other_rules_hold_for_a_batch_that_has_not_written(spark: SparkSession, stage: Stage) -> None:
    offsets = stage.checkpoint / "offsets"
    last = CheckpointLog(stage.checkpoint).begun()[-1].batch_id
    shutil.copy(offsets / str(last), offsets / str(last + 1))
    go_on(spark, stage, OTHER_GAP)


def test_a_stream_that_never_ran_a_batch_may_have_other_key_groups(spark: SparkSession, stage: Stage) -> None:
    shutil.rmtree(stage.checkpoint / "offsets")
    go_on(spark, stage, OTHER_GROUPS)


def test_a_record_that_is_damaged_is_not_guessed(spark: SparkSession, stage: Stage) -> None:
    stage.checkpoint.with_name("spec.json").write_text("{")
    with pytest.raises(DamagedFile):
        go_on(spark, stage, {})


def test_a_driver_refuses_to_start_and_says_what_to_put_back(spark: SparkSession, stage: Stage) -> None:
    batches = CheckpointLog(stage.checkpoint).begun()
    stage.write_spec({**clicks_spec(), **OTHER_GROUPS})
    with DriverProcess.start(stage, "other", until="caught-up") as driver:
        assert driver.wait() == InvalidSpec.exit_code
        assert "key_groups is 5; allowed: 4" in driver.said
    ended = read_exit(stage.stream_home, "other")
    assert ended
    assert (ended.error_type, ended.terminal) == ("InvalidSpec", True)
    assert CheckpointLog(stage.checkpoint).begun() == batches
