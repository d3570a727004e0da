"""A driver makes the first checkpoint of a table's log beforehand, on a table of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.spark.driver.rehearsal import AFTER_BATCHES, Rehearsal, rehearse_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession


def test_every_commit_of_its_table_comes_with_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    rehearse_checkpoint(spark, str(tmp_path / "table"))
    assert list((tmp_path / "table" / "_delta_log").glob("*.checkpoint*.parquet"))
    assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 2


def test_it_waits_for_its_time_is_done_once_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed: list[str] = []

    def rehearse(spark: SparkSession, location: str) -> None:
        rehearse_checkpoint(spark, location)
        rehearsed.append(location)

    monkeypatch.setattr("sessionizer.spark.driver.rehearsal.rehearse_checkpoint", rehearse)
    folder = tmp_path / "rehearsal"
    (folder / "left by a driver that was killed").mkdir(parents=True)
    rehearsal = Rehearsal(spark, folder)
    rehearsal.look(AFTER_BATCHES - 1, caught_up=True)
    rehearsal.look(AFTER_BATCHES, caught_up=False)
    rehearsal.end()
    assert not rehearsed
    for _ in range(2):
        rehearsal.look(AFTER_BATCHES, caught_up=True)
        rehearsal.end()
    assert rehearsed == [str(folder)]
    assert not folder.exists()


def test_one_that_fails_is_nobodys_concern(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    rehearsal = Rehearsal(spark, tmp_path / "file" / "rehearsal")
    rehearsal.look(AFTER_BATCHES, caught_up=True)
    rehearsal.end()
