"""A seed that was approved, and a stream that begins while the command starts Spark: the seed is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.control.records.operation_record import read_operations
from sessionizer.errors import StreamBegun
from sessionizer.spark.history.history_rows import find_history
from sessionizer.state.seeds.seed_plan import BEGINNING, SeedDecision
from sessionizer.stream_spec.decisions import spec_fingerprint
from support.expected.folder_digest import folder_digest
from support.expected.landed import landed
from support.processes.in_process import catch_up
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession


def test_a_stream_that_began_meanwhile_is_not_seeded_over(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=4))
    write_click_files(stage.feed, files=2)
    written: dict[str, object] = {}

    def started(*_: object, **__: object) -> SparkSession:
        """Spark takes minutes to start, and a driver reads all there is in that time."""
        catch_up(spark, stage)
        written["home"] = folder_digest(stage.stream_home.root)
        written["rows"] = landed(stage)
        return spark

    monkeypatch.setattr("sessionizer.cli.state_commands.course.start_spark", started)
    where = ("--streams", str(stage.streams), "--home", str(stage.home))
    command = ["seed", "clicks", "--history", str(stage.feed), "--backfill", "--approve", digest_of(stage), *where]
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, StreamBegun)
    assert error.lineage == stage.lineage
    assert read_operations(stage.stream_home) == []
    assert folder_digest(stage.stream_home.root) == written["home"]
    assert landed(stage) == written["rows"]


def digest_of(stage: Stage) -> str:
    """The digest that the plan of the seed shows."""
    spec = stage.spec()
    past, _ = find_history(str(stage.feed), spec.source, None, None, None)
    return SeedDecision(stage.name, spec_fingerprint(spec), past, None, BEGINNING, backfill=True, leaves=None).digest
