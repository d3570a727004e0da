"""An upgrade that is proven first: a bad release ends the command before anything is stopped or written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from typer.testing import CliRunner, Result

from sessionizer.cli.app import app
from sessionizer.control.records.desired_state import DesiredState, read_desired
from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.errors import ReplayDiffers
from sessionizer.spark.sinks.write import Sinks
from sessionizer.state.proof.page import kept_pages
from support.processes.in_process import catch_up
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

PLACES = "sessionizer.cli.state_commands.operations.started_spark"


@pytest.mark.long
def test_a_bad_release_never_stops_the_stream(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    write_click_files(stage.feed, 4, rate=12)
    catch_up(spark, stage)
    home, before = stage.stream_home, stage.lineage
    stage.write_spec(clicks_spec(max_events=9_999))
    monkeypatch.setattr(PLACES, lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)

    def typed(*options: str) -> Result:
        places = ("--home", str(stage.home), "--streams", str(stage.streams))
        return CliRunner().invoke(app, ["upgrade", "clicks", "--prove", *options, *places])

    plan = json.loads(typed("--json").stdout)
    assert plan["steps"][:2] == ["Prove", "Stop"]
    rows = Sinks._rows

    def fewer(self: Sinks, emitted: DataFrame, kind: str, batch_id: int) -> DataFrame:
        found = rows(self, emitted, kind, batch_id)
        return found.where(F.pmod(F.xxhash64("session_id"), F.lit(5)) > 0) if "session_id" in found.columns else found

    with monkeypatch.context() as release:
        release.setattr(Sinks, "_rows", fewer)
        refused = typed("--approve", plan["digest"])
    assert isinstance(refused.exception, ReplayDiffers)
    assert read_operations(home) == []
    assert (read_desired(home).state, stage.lineage) == (DesiredState.RUNNING, before)
    assert len(kept_pages(home)) == 1, "a page says which rows differ"

    done = typed("--approve", plan["digest"])
    assert done.exit_code == 0, done.output
    (record,) = read_operations(home)
    assert record.outcome is Ending.DONE
    assert len(kept_pages(home)) == 2
