"""A run that ends when it has caught up reads all there was: in as many batches as the limits ask for, however old."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, table_rows
from support.processes.driver_process import run_to_end
from support.processes.in_process import catch_up, drain
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FILES = 6
DAY_S = 24 * 60 * 60


def make_old(file: Path, read_at_s: float) -> None:
    """Make the file a month older than one that was read."""
    os.utime(file, (read_at_s - 30 * DAY_S,) * 2)


def unlimited_spec(**options: str) -> dict[str, object]:
    """The default limits of a batch hold: the spec has none of its own."""
    spec = clicks_spec()
    spec["source"]["options"] = options
    return spec


def files_by_batch(stage: Stage, files: ClickFiles) -> list[set[str]]:
    """The files of clicks that each batch brought, of those that brought any."""
    brought = [batch.files & files.keys() for batch in CheckpointLog(stage.checkpoint).committed()]
    return [set(names) for names in brought if names]


@pytest.mark.long
def test_a_default_limit_makes_several_batches_of_what_is_there_however_old(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage.set_up(tmp_path, unlimited_spec())
    files = write_click_files(stage.feed, FILES)
    largest = max((stage.feed / name).stat().st_size for name in files)
    monkeypatch.setattr("sessionizer.spark.ingest.source.TEXT_BYTES", largest)
    aside = {name: (stage.feed / name).rename(tmp_path / name) for name in sorted(files)[FILES // 2 :]}

    catch_up(spark, stage)
    first = files_by_batch(stage, files)
    assert set().union(*first) == files.keys() - aside.keys(), "it has caught up"
    read_at_s = max((stage.feed / name).stat().st_mtime for name in set().union(*first))
    for name, path in aside.items():
        make_old(path, read_at_s)
        path.rename(stage.feed / name)
    drain(spark, stage)

    batches = files_by_batch(stage, files)
    assert batches[: len(first)] == first
    assert len(first) > 1
    assert len(batches) > len(first) + 1
    assert sum(map(len, batches)) == FILES, "each once"
    assert_as_defined(stage, files)


@pytest.mark.long
def test_a_file_that_is_older_than_the_spec_allows_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, unlimited_spec(maxFileAge="7d"))
    files = write_click_files(stage.feed, 2)
    newest, old = sorted(files)
    aside = (stage.feed / old).rename(tmp_path / old)
    catch_up(spark, stage)
    make_old(aside, (stage.feed / newest).stat().st_mtime)
    aside.rename(stage.feed / old)
    catch_up(spark, stage)
    assert files_by_batch(stage, files) == [{newest}]


def on_arrival(time_mode: str) -> dict[str, object]:
    """Sessions that run on the wall clock, or end by a closing event or a cap alone."""
    return clicks_spec(time_mode=time_mode, gap_timeout="1 second", max_events=2)


@pytest.mark.parametrize("time_mode", ["processing_time", pytest.param("none", marks=pytest.mark.long)])
def test_on_arrival_a_query_ends_when_it_has_caught_up(spark: SparkSession, tmp_path: Path, time_mode: str) -> None:
    stage = Stage.set_up(tmp_path, on_arrival(time_mode))
    files = write_click_files(stage.feed, 2)
    catch_up(spark, stage)
    assert set().union(*files_by_batch(stage, files)) == files.keys()


@pytest.mark.long
def test_a_nightly_run_on_the_wall_clock_closes_what_is_over_though_nothing_new_came(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, on_arrival("processing_time"))
    write_click_files(stage.feed, 1)
    run_to_end(stage, "first", until="caught-up")
    before = sum(row["event_count"] for row in table_rows(stage.table("sessions")))
    run_to_end(stage, "second", until="caught-up")
    assert sum(row["event_count"] for row in table_rows(stage.table("sessions"))) > before
