"""A file that is gone before it was read is an error that names it, and the stream goes on when it is back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.checkpoint.batch_logs import list_begun_batches
from sessionizer.errors import SourceFilesGone, SourceUnreachable
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def stage_with_a_batch_planned(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Batch 1 is planned with two files, and nothing of it was read."""
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=10))
    (stage.feed / "0.json").write_bytes(line(0, "ann"))
    catch_up(spark, stage)
    for number in (1, 2):
        (stage.feed / f"{number}.json").write_bytes(line(number, "ann"))
    before = len(list_begun_batches(stage.checkpoint))
    with monkeypatch.context() as patched:
        patched.setattr("sessionizer.spark.driver.prepared_query.PreparedQuery._write", _killed)
        with pytest.raises(Exception, match="killed"):
            catch_up(spark, stage)
    assert len(list_begun_batches(stage.checkpoint)) == before + 1
    return stage


def _killed(*_: object) -> None:
    message = "killed"
    raise RuntimeError(message)


@pytest.mark.long
def test_a_file_that_is_gone_unread_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stage_with_a_batch_planned(spark, tmp_path, monkeypatch)
    away = stage.feed / "1.json"
    kept = away.rename(tmp_path / "kept")

    with pytest.raises(SourceFilesGone) as gone:
        catch_up(spark, stage)
    assert [uri.rpartition("/")[2] for uri in gone.value.files] == ["1.json"]

    kept.rename(away)
    drain(spark, stage)
    assert [row["event_count"] for row in table_rows(stage.table("sessions"))] == [3]


@pytest.mark.long
def test_an_idle_stream_whose_folder_goes_is_not_idle(tmp_path: Path) -> None:
    """Spark takes a missing folder for an empty one."""
    stage = Stage.set_up(tmp_path, clicks_spec())
    (stage.feed / "0.json").write_bytes(line(0, "ann"))
    with DriverProcess.start(stage, "one", "stopped") as driver:
        driver.wait_for_line("batch 0 ")
        away = stage.feed.rename(tmp_path / "away")
        assert driver.wait() == SourceUnreachable.exit_code, driver.said[-4_000:]
    away.rename(stage.feed)
    run_to_end(stage, "two")
    assert [row["event_count"] for row in table_rows(stage.table("sessions"))] == [1]


@pytest.mark.long
def test_an_empty_file_of_its_name_lets_the_stream_go_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stage_with_a_batch_planned(spark, tmp_path, monkeypatch)
    (stage.feed / "2.json").unlink()
    with pytest.raises(SourceFilesGone):
        catch_up(spark, stage)
    (stage.feed / "2.json").touch()
    drain(spark, stage)
    assert [row["event_count"] for row in table_rows(stage.table("sessions"))] == [2]
