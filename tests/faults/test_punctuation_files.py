"""Punctuations stay as long as Spark keeps their batch. Then they are removed, and no driver looks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.home.data_files import list_names
from sessionizer.spark.ingest import punctuation
from support.expected.checkpoint_log import CheckpointLog
from support.processes.driver_process import DriverProcess
from support.stores.data_fixtures import ON_A_PATH_AND_HDFS
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.home.roots import DataPath

TWO_BATCHES_ARE_KEPT = "-Dspark.sql.streaming.minBatchesToRetain=1 -Dspark.sql.streaming.asyncLogPurge.enabled=false"
"""Java options: a driver has to come past Spark's hundred batches before it removes anything."""


def folder_of(stage: Stage) -> DataPath:
    """Return the folder of the punctuations of the stream's lineage."""
    assert stage.lineage
    return stage.stream_home.punctuations(stage.lineage)


def found(stage: Stage) -> set[str]:
    """Return the names of the punctuations that are there."""
    return {name for name in list_names(folder_of(stage)) if name.endswith(".json")}


def needed(stage: Stage) -> set[str]:
    """Return the names of those that are unread, or that a replay of a kept batch reads. None replays the oldest."""
    oldest, *later = CheckpointLog(stage.checkpoint).committed()
    return found(stage) - (oldest.files - {name for batch in later for name in batch.files})


@pytest.mark.long
@ON_A_PATH_AND_HDFS
def test_a_restarted_driver_does_not_look_for_punctuations_that_are_gone(
    tmp_path: Path, data: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", TWO_BATCHES_ARE_KEPT)
    stage = Stage.set_up(tmp_path, clicks_spec(), data=data)
    write_click_files(stage.feed, 1)
    before, kept, removed = set[str](), set[str](), 0
    for uid, until in (("a", "caught-up"), ("b", "caught-up"), ("c", "caught-up"), ("d", "drained")):
        with DriverProcess.start(stage, uid, until) as driver:
            assert driver.wait() == 0, driver.said[-4_000:]
            assert "Failed to remove" not in driver.said
        assert before & found(stage) == kept
        removed += len(before - kept)
        assert len(CheckpointLog(stage.checkpoint).committed()) == 2
        if until == "caught-up":
            punctuation.wake(folder_of(stage))
        before, kept = found(stage), needed(stage)
    assert removed
