"""A stream of this machine whose savepoints are on a real HDFS: made, listed, verified, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.deployment.running_spec import new_record
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import files_below
from sessionizer.home.roots import folder_at, uri_of
from sessionizer.home.stream_home import GROUP_LOGS, OPEN_EVENTS
from sessionizer.lineage.kept_spec import write_lineage_spec
from sessionizer.spark.state.savepoints.canonical_tables import savepoint_table
from sessionizer.spark.state.savepoints.event_counts import recount
from sessionizer.spark.state.savepoints.savepoint import make_savepoint
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.data_digest import digest_files
from sessionizer.state.savepoints.listing import examine_savepoint, list_savepoints
from sessionizer.state.savepoints.manifest import read_manifest
from sessionizer.state.savepoints.marker_files import RemovalMark, keep_from_removal, write_data_record
from sessionizer.state.savepoints.native import install, make_native_savepoint
from sessionizer.state.savepoints.removal import remove
from sessionizer.state.savepoints.savepoint_state import SavepointState
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest
from sessionizer.state.savepoints.verification import Damage, findings
from support.places import opened
from support.processes.in_process import catch_up
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from upath import UPath

    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import SavepointHome


@pytest.fixture
def folder(hdfs_folder: UPath) -> DataPath:
    """As a person would name it."""
    return folder_at(uri_of(hdfs_folder)) / "clicks"


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Stage:
    stage = Stage.set_up(tmp_path, clicks_spec())
    write_click_files(stage.feed, 2, rate=6)
    catch_up(spark, stage)
    assert stage.lineage
    write_lineage_spec(stage.stream_home, stage.lineage, new_record(stage.stream_home, stage.spec()))
    return stage


def wrong_with(home: SavepointHome) -> list[Damage]:
    manifest, found = read_manifest(home), digest_files(home)
    assert manifest
    return [each.damage for each in findings(manifest.files, found.files, found.unreadable)]


@pytest.mark.long
def test_they_are_made_used_and_removed_there(
    spark: SparkSession, stage: Stage, folder: DataPath, tmp_path: Path
) -> None:
    home, committed = stage.stream_home, read_committed_batch(stage.stream_home)
    assert uri_of(folder).startswith("hdfs://")
    made = make_savepoint(spark, home, committed, SavepointRequest(folder, "tests", "a"), lambda _: None)
    native = make_native_savepoint(home, committed, SavepointRequest(folder, "tests", "b"), lambda _: None)
    canonical, copied = list_savepoints(folder, epoch_ms())
    assert [canonical.manifest, copied.manifest] == [made, native]
    assert savepoint_table(spark, canonical.home, OPEN_EVENTS).count() == made.counts.events if made.counts else 0
    held = made.counts, made.earliest_due_ms
    assert recount(spark, canonical.home, made) == {OPEN_EVENTS: held, GROUP_LOGS: held}
    assert wrong_with(canonical.home) == wrong_with(copied.home) == []
    install(copied.home, native, tmp_path / "checkpoint")
    assert (tmp_path / "checkpoint" / "commits" / str(native.batch_id)).exists()

    with keep_from_removal(canonical.home, "tests"):
        assert remove(canonical.home, home) == "somebody reads it"
    hurt = next(file for file in files_below(canonical.home.part(OPEN_EVENTS)) if file.name.endswith(".parquet"))
    content = opened(hurt).read_bytes()
    opened(hurt).unlink()
    opened(hurt).write_bytes(content[:-1])
    assert wrong_with(canonical.home) == [Damage.CUT]
    opened(canonical.home.manifest).unlink()
    assert examine_savepoint(canonical.home, epoch_ms()).state is SavepointState.MAKING
    write_data_record(copied.home.condemned, RemovalMark(epoch_ms()))  # by one that was killed
    assert remove(copied.home, home) is None
    assert [each.id for each in list_savepoints(folder, epoch_ms())] == ["a"]
