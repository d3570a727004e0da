"""A driver makes the first checkpoint of a table's log beforehand, on a table of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from pyspark.errors import PySparkException

from sessionizer.control.records.process_records import request_stop
from sessionizer.errors import PrivateDoorBroken
from sessionizer.spark.driver.housekeeping.rehearsal import AFTER_BATCHES, Rehearsal, rehearse_checkpoint
from support.expected.checkpoint_log import CheckpointLog
from support.places import opened
from support.processes.driver_process import DriverProcess
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_every_commit_of_its_table_comes_with_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    rehearse_checkpoint(spark, str(tmp_path / "table"))
    assert list((tmp_path / "table" / "_delta_log").glob("*.checkpoint*.parquet"))
    assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 2


def test_it_is_due_once_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed: list[str] = []

    def rehearse(spark: SparkSession, location: str) -> None:
        rehearse_checkpoint(spark, location)
        rehearsed.append(location)

    monkeypatch.setattr("sessionizer.spark.driver.housekeeping.rehearsal.rehearse_checkpoint", rehearse)
    folder = tmp_path / "rehearsal"
    (folder / "left by a driver that was killed").mkdir(parents=True)
    rehearsal = Rehearsal(spark, folder)
    assert [rehearsal.is_due(batches) for batches in (0, AFTER_BATCHES - 1, AFTER_BATCHES)] == [False, False, True]
    rehearsal.end()  # of a driver that ends before
    assert not rehearsed
    rehearsal.begin()
    assert not rehearsal.is_due(AFTER_BATCHES)
    rehearsal.end()
    assert rehearsed == [str(folder)]
    assert not folder.exists()


@pytest.mark.parametrize(
    "error", [PrivateDoorBroken("Delta's log", "it moved"), OSError("gone"), PySparkException("failed")], ids=repr
)
def test_one_that_fails_says_nothing_and_is_not_tried_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What a thread raises is told by Python, and fails the test."""
    monkeypatch.setattr("sessionizer.spark.driver.housekeeping.rehearsal.rehearse_checkpoint", Mock(side_effect=error))
    rehearsal = Rehearsal(spark, tmp_path / "rehearsal")
    rehearsal.begin()
    rehearsal.end()
    assert not rehearsal.is_due(AFTER_BATCHES)


@pytest.mark.long
def test_a_driver_does_it_when_it_has_caught_up_and_goes_on(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    write_click_files(stage.feed, AFTER_BATCHES)
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(lambda: stage.lineage is not None, "a lineage")
        folder = stage.checkpoint.parent / "rehearsal"
        driver.wait_for(opened(folder / "_delta_log" / f"{1:020}.json").exists, "a rehearsal")
        assert len(CheckpointLog(stage.checkpoint).committed()) >= AFTER_BATCHES
        driver.wait_for(lambda: not opened(folder).exists(), "its end")
        request_stop(stage.stream_home, "a", "a test")
        assert driver.wait() == 0
