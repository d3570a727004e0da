"""Real drivers with control and data in two roots: roots that are not the lineage's."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sessionizer.causes.table import CAUSES
from sessionizer.errors import DamagedFile, DataElsewhere
from sessionizer.home.roots import uri_of
from support.places import REPOSITORY, mounted
from support.processes.driver_process import DriverProcess, run_to_end
from support.stores.data_fixtures import HDFS
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long
def test_no_driver_begins_from_scratch_beside_data_that_it_does_not_know(tmp_path: Path) -> None:
    """Neither with another data root, nor when all that was noted is lost."""
    lake, other = tmp_path / "lake", tmp_path / "other"
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=9), data=str(lake))
    write_click_files(stage.feed, 1)
    run_to_end(stage, "a", until="caught-up")
    assert {path.name for path in stage.stream_home.root.iterdir()} == {"control", "logs"}
    elsewhere = Stage(stage.root, stage.home, data=str(other))
    with DriverProcess.start(elsewhere, "b") as driver:
        assert driver.wait() == DataElsewhere.exit_code, driver.said[-4_000:]
        assert (
            f"SESSIONIZER_DATA is '{other}', but lineage {stage.lineage} of stream 'clicks' has its data at"
            in driver.said
        )
        assert f"remedy: {CAUSES['DataElsewhere'].remedy}" in driver.said
    assert not other.exists()
    shutil.rmtree(mounted(stage.stream_home.control))
    with DriverProcess.start(stage, "c") as driver:
        assert driver.wait() == DamagedFile.exit_code, driver.said[-4_000:]
        assert "lineage.json is damaged: " in driver.said
    assert len(list((lake / "streams" / "clicks" / "lineages").iterdir())) == 1


@pytest.mark.long
@pytest.mark.parametrize("data", [HDFS], indirect=True)
def test_what_people_type_works_on_hdfs(tmp_path: Path, data: str) -> None:
    """The report, which keeps a bookmark, and the queries that ``tables`` prints."""
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=9), data=data)
    write_click_files(stage.feed, 2)
    run_to_end(stage, "a")
    assert reported(stage, data).startswith("rebuilt ")
    assert reported(stage, data).startswith("refreshed 0 days")
    places = json.loads(sessionizer(stage, "tables", "--json"))["tables"]  # it knows where the data is
    assert {place["path"] for place in places} == {uri_of(stage.table(place["name"])) for place in places}
    (sessions,) = [place for place in places if place["name"] == "sessions"]
    for engine in ("duckdb", "polars"):
        answered = subprocess.run(shlex.split(sessions[engine]), capture_output=True, text=True, check=False)
        assert "close_reason" in answered.stdout, answered.stderr


def reported(stage: Stage, data: str) -> str:
    """Return what a report did to the daily table. It adds to the stream's history first, which is on HDFS as well."""
    history, daily = sessionizer(stage, "report", "--data", data).splitlines()
    assert history.startswith("added ")
    assert history.endswith(f": {uri_of(stage.table('stream_history'))}")
    assert daily.endswith(f": {uri_of(stage.table('sessions_daily'))}")
    return daily


def sessionizer(stage: Stage, *words: str) -> str:
    verb, *options = words
    places = ["--home", str(stage.home), "--streams", str(stage.streams)]
    command = [sys.executable, str(REPOSITORY / "jobs" / "main.py"), verb, stage.name, *places, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
