"""Punctuations are taken away with their batch, and no line of a log is about one that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.home.data_files import list_names
from sessionizer.spark.ingest import punctuation
from support.processes.driver_process import DriverProcess
from support.stores.data_fixtures import ON_A_PATH_AND_HDFS
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long
@ON_A_PATH_AND_HDFS
def test_a_restarted_driver_does_not_look_for_punctuations_that_are_gone(tmp_path: Path, data: str | None) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(), data=data)
    write_click_files(stage.feed, 1)
    said = []
    for uid, until in (("a", "caught-up"), ("b", "caught-up"), ("c", "drained")):
        with DriverProcess.start(stage, uid, until) as driver:
            assert driver.wait() == 0, driver.said[-4_000:]
            said.append(driver.said)
        assert stage.lineage
        folder = stage.stream_home.punctuations(stage.lineage)
        if until == "caught-up":
            punctuation.wake(folder)
    # the last one may be of the last batch, after which nobody looks
    assert len([name for name in list_names(folder) if name.endswith(".json")]) <= 1
    assert not any("Failed to remove" in text for text in said)
