"""A state that is older than its tables, a table that is gone, a commit that was removed: nothing is lost silently."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.errors import DataAway, HomeCopied, RowsMissing, StateBehindTables
from support.expected.folder_digest import folder_digest
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.processes.driver_process import DriverProcess
from support.processes.in_process import catch_up
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def staged(root: Path) -> tuple[Stage, Path]:
    """A stream whose tables are outside of its home."""
    lake = root / "lake"
    return Stage.set_up(root, {**clicks_spec(), "sink": {"path": str(lake)}}), lake


def feed(stage: Stage, *numbers: int) -> None:
    """A file of clicks that end the sessions before them."""
    (stage.feed / f"{numbers[0]:06}.json").write_bytes(b"\n".join(line(number, f"u{number}") for number in numbers))


def run(stage: Stage, uid: str, *flags: str) -> int:
    with DriverProcess.start(stage, uid, "caught-up", flags=flags) as driver:
        return driver.wait()


def refused(stage: Stage, uid: str) -> type[Exception]:
    """Start a driver that is refused before Spark starts, and changes nothing. Return the reason."""
    before = folder_digest(stage.root / "lake"), folder_digest(stage.stream_home.root / "lineages")
    with DriverProcess.start(stage, uid, "caught-up") as driver:
        code = driver.wait()
        assert "starting Spark" not in driver.said
    assert (folder_digest(stage.root / "lake"), folder_digest(stage.stream_home.root / "lineages")) == before
    ended = EXIT_FILE.of(stage.stream_home, uid).read()
    assert ended is not None
    found = {kind.__name__: kind for kind in (StateBehindTables, DataAway, RowsMissing, HomeCopied)}[
        str(ended.error_type)
    ]
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
