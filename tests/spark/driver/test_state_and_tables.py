"""A state that is older than its tables, a table that is gone, a commit that was removed: nothing is lost silently."""

import json
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from typer.testing import CliRunner
from upath import UPath

from sessionizer.causes.table import CAUSES
from sessionizer.cli.app import app
from sessionizer.control.lease import fence, read_lease
from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, request_stop
from sessionizer.errors import (
    DamagedFile,
    DataAway,
    DataElsewhere,
    HomeCopied,
    LeaseHeld,
    LeaseLost,
    RowsMissing,
    StateBehindTables,
)
from sessionizer.home.roots import uri_of
from sessionizer.launch.driver_environment import plain
from support.expected.checkpoint_log import CheckpointLog
from support.expected.file_accesses import folder_digest
from support.expected.landed import assert_as_defined, table_rows
from support.faults.bad_clicks import line
from support.places import REPOSITORY, known, mounted
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.in_process import catch_up
from support.releases.environments import type_with
from support.stores.control_fixtures import HDFS
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec


def staged(root: Path) -> tuple[Stage, Path]:
    lake = root / "lake"
    return Stage.set_up(root, {**clicks_spec(), "sink": {"path": str(lake)}}), lake


def feed(stage: Stage, *numbers: int) -> None:
    (stage.feed / f"{numbers[0]:06}.json").write_bytes(b"\n".join(line(number, f"u{number}") for number in numbers))


def run(stage: Stage, uid: str, *flags: str) -> int:
    with DriverProcess.start(stage, uid, "caught-up", flags=flags) as driver:
        return driver.wait()


def refused(stage: Stage, uid: str) -> type[Exception]:
    """Start a driver that is refused before Spark starts, and changes nothing. Return the reason."""
    folders = (stage.root / "lake", stage.stream_home.root / "lineages")
    before = [*map(folder_digest, folders)]
    with DriverProcess.start(stage, uid, "caught-up") as driver:
        code = driver.wait()
        assert "starting Spark" not in driver.said
    assert [*map(folder_digest, folders)] == before
    ended = known(EXIT_FILE.of(stage.stream_home, uid).read())
    errors = {kind.__name__: kind for kind in (StateBehindTables, DataAway, RowsMissing, HomeCopied)}
    found = errors[str(ended.error_type)]
    assert (code, ended.terminal) == (found.exit_code, found is not DataAway)
    return found


def lose_newest_commit(table: Path) -> None:
    commit = max((table / "_delta_log").glob("*.json"))
    commit.unlink()
    commit.with_suffix(".crc").unlink()
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the commit


@pytest.mark.long
def test_an_old_home_a_lost_table_and_a_lost_commit_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    stage, lake = staged(tmp_path)
    streams, older, newer = stage.home / "streams", tmp_path / "older", tmp_path / "newer"
    feed(stage, 0, 600)
    assert run(stage, "one") == 0
    shutil.copytree(streams, older)
    feed(stage, 1200, 1800)
    assert run(stage, "two") == 0
    written = table_rows(lake / "sessions")

    copied = replace(stage, home=tmp_path / "copied")
    shutil.copytree(stage.home, copied.home)
    assert refused(copied, "copy") is HomeCopied

    streams.rename(newer)
    older.rename(streams)
    assert refused(stage, "old-home") is StateBehindTables
    shutil.rmtree(streams)
    newer.rename(streams)

    (lake / "sessions").rename(tmp_path / "aside")
    assert refused(stage, "no-table") is DataAway
    (tmp_path / "aside").rename(lake / "sessions")

    lose_newest_commit(lake / "sessions")
    assert refused(stage, "no-commit") is RowsMissing
    assert len(table_rows(lake / "sessions")) < len(written)
    feed(stage, 2400)
    assert run(stage, "accepted", "--accept-tables") == 0
    kept = json.loads(stage.stream_home.lineage(str(stage.lineage)).batches.read_text())
    assert set(kept["written"]) == {f"{lake}/sessions"}


def test_the_checkpoint_on_a_mount_that_is_away_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    feed(stage, 0, 600)
    catch_up(spark, stage)
    (tmp_path / "lake").mkdir()
    shutil.move(stage.stream_home.root / "lineages", tmp_path / "aside")
    assert refused(stage, "no-checkpoint") is DataAway


def test_a_batch_that_was_not_begun_is_never_taken_for_a_replay(spark: SparkSession, tmp_path: Path) -> None:
    stage, lake = staged(tmp_path)
    streams, older = stage.home / "streams", tmp_path / "older"
    feed(stage, 0, 600)
    catch_up(spark, stage)
    shutil.copytree(streams, older)
    feed(stage, 1200, 1800)
    catch_up(spark, stage)
    written = table_rows(lake / "sessions")
    shutil.rmtree(streams)
    older.rename(streams)
    feed(stage, 1, 602, 2400)
    with pytest.raises(StreamingQueryException, match="StateBehindTables"):
        catch_up(spark, stage)
    assert table_rows(lake / "sessions") == written


def test_a_local_checkpoint_names_its_files_by_the_older_interface(spark: SparkSession, tmp_path: Path) -> None:
    jvm = cast("Any", spark.sparkContext._jvm)
    companion = getattr(jvm.org.apache.spark.sql.execution.streaming.checkpointing, "CheckpointFileManager$")
    settings = cast("Any", spark._jsparkSession).sessionState().newHadoopConf()
    manager = getattr(companion, "MODULE$").create(jvm.org.apache.hadoop.fs.Path(str(tmp_path)), settings)
    expected = "FileContextBasedCheckpointFileManager" if plain() else "FileSystemBasedCheckpointFileManager"
    assert manager.getClass().getSimpleName() == expected


def committed(stage: Stage) -> int:
    return 0 if stage.lineage is None else len(CheckpointLog(stage.checkpoint).committed())


@pytest.mark.long
def test_drivers_stop_start_are_refused_fenced_and_killed_by_records_in_hdfs(
    tmp_path: Path, hdfs_folder: UPath
) -> None:
    root = uri_of(hdfs_folder)
    # between two drivers it is quiet for long: nothing but a drain may move the watermark
    stage = Stage.set_up(tmp_path, clicks_spec(idle_after=None), data=f"{root}/data", control=f"{root}/control")
    files = write_click_files(stage.feed, 20)
    home = stage.stream_home
    with DriverProcess.start(stage, "a", until="stopped") as first:
        first.wait_for(lambda: committed(stage) >= 2, "two batches")
        assert f"control: {root}/control" in first.said
        with DriverProcess.start(stage, "b") as second:
            assert second.wait() == LeaseHeld.exit_code, second.said[-4_000:]
        request_stop(home, "a", "a test")
        assert first.wait() == 0, first.said[-4_000:]
    ended, beat = EXIT_FILE.of(home, "a").read(), HEARTBEAT_FILE.of(home).read()
    assert known(ended).outcome is ExitOutcome.STOPPED
    assert known(beat).uid == "a"
    before = committed(stage)
    with DriverProcess.start(stage, "c", until="stopped") as third:
        third.wait_for(lambda: committed(stage) > before, "another batch")
        assert fence(home, "c") is not None
        assert third.wait() == LeaseLost.exit_code, third.said[-4_000:]
    before = committed(stage)
    with DriverProcess.start(stage, "d", until="stopped") as fourth:
        fourth.wait_for(lambda: committed(stage) > before, "another batch")
        fourth.kill_all()
    stage.write_spec(clicks_spec(files_per_batch=100, idle_after=None))
    run_to_end(stage, "last", apply=True)
    lease = known(read_lease(home))
    # taken by a, c, d and the last; given up by a and the last, taken from c
    assert (lease.uid, lease.token) == ("last", 7)
    assert_as_defined(stage, files)
    assert not (home.root / "control" / "lineage.json").exists()


@pytest.mark.long
def test_no_driver_begins_from_scratch_beside_data_that_it_does_not_know(tmp_path: Path) -> None:
    """Neither with another data root, nor when all that was noted is lost."""
    lake, other = tmp_path / "lake", tmp_path / "other"
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=9), data=str(lake))
    write_click_files(stage.feed, 1)
    run_to_end(stage, "a", until="caught-up")
    assert {path.name for path in stage.stream_home.root.iterdir()} == {"control", "logs"}
    elsewhere = Stage(stage.root, stage.home, data=str(other))
    said = run_to_end(elsewhere, "b", code=DataElsewhere.exit_code)
    words = f"SESSIONIZER_DATA is '{other}', but lineage {stage.lineage} of stream 'clicks' has its data at"
    assert words in said
    assert f"remedy: {CAUSES['DataElsewhere'].remedy}" in said
    assert not other.exists()
    shutil.rmtree(mounted(stage.stream_home.control))
    said = run_to_end(stage, "c", code=DamagedFile.exit_code)
    assert "lineage.json is damaged: " in said
    assert len(list((lake / "streams" / "clicks" / "lineages").iterdir())) == 1


@pytest.mark.long
@pytest.mark.parametrize("data", [HDFS], indirect=True)
def test_what_people_type_works_on_hdfs(tmp_path: Path, data: str) -> None:
    """The report, which keeps a bookmark, and the queries that ``tables`` prints."""
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=9), data=data)
    write_click_files(stage.feed, 2)
    run_to_end(stage, "a")
    assert reported(stage).startswith("rebuilt ")
    assert reported(stage).startswith("refreshed 0 days")
    command = ["tables", stage.name, "--json", "--home", str(stage.home), "--streams", str(stage.streams)]
    told = CliRunner().invoke(app, command, catch_exceptions=False).stdout  # it knows where the data is
    places = json.loads(told)["tables"]
    assert {place["path"] for place in places} == {uri_of(stage.table(place["name"])) for place in places}
    (sessions,) = [place for place in places if place["name"] == "sessions"]
    for engine in ("duckdb", "polars"):
        answered = subprocess.run(shlex.split(sessions[engine]), capture_output=True, text=True, check=False)
        assert "close_reason" in answered.stdout, answered.stderr


def reported(stage: Stage) -> str:
    """Return what a report did to the daily table. It adds to the stream's history first, which is on HDFS as well."""
    done = type_with(REPOSITORY, "report", stage)
    assert done.returncode == 0, done.stderr
    history, daily = done.stdout.splitlines()
    assert history.startswith("added ")
    assert history.endswith(f": {uri_of(stage.table('stream_history'))}")
    assert daily.endswith(f": {uri_of(stage.table('sessions_daily'))}")
    return daily
