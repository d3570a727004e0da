"""Streams and savepoints of each release, continued by this one with every open session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sessionizer.home.clock import epoch_ms
from sessionizer.state.savepoints.shelf import complete_savepoint
from support.processes.in_process import drain
from support.releases.cut_release import CANONICAL, EXPECTED, NATIVE, RELEASES, sessions_of, unpack_release
from support.verbs.restored_stream import Restored

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FOLDERS = sorted(folder for folder in RELEASES.iterdir() if folder.is_dir())


def expected(release: Path) -> object:
    return json.loads((release / EXPECTED).read_text())


@pytest.mark.parametrize("release", FOLDERS, ids=lambda folder: folder.name)
def test_a_lineage_of_a_release_goes_on(spark: SparkSession, tmp_path: Path, release: Path) -> None:
    stage = unpack_release(release, tmp_path)
    before = sessions_of(spark, stage)
    drain(spark, stage)
    assert sessions_of(spark, stage) == expected(release) != before


@pytest.mark.long
@pytest.mark.parametrize("kind", [CANONICAL, NATIVE])
@pytest.mark.parametrize("release", FOLDERS, ids=lambda folder: folder.name)
def test_a_savepoint_of_a_release_is_restored(spark: SparkSession, tmp_path: Path, release: Path, kind: str) -> None:
    stage = unpack_release(release, tmp_path, kind)
    before = stage.lineage
    assert before
    found = complete_savepoint(stage.stream_home.savepoints, kind, epoch_ms())
    Restored(spark, stage, {}, before, *found).restore()
    assert stage.lineage != before
    drain(spark, stage)
    assert sessions_of(spark, stage) == expected(release)
