"""Six kinds of bad release, each a copy of the code with one line changed: none passes a proof. A refactoring does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from sessionizer.deployment.running_spec import new_record
from sessionizer.errors import ReplayDiffers
from sessionizer.lineage.kept_spec import write_lineage_spec
from support.faults.patched_release import CUTS_ELSEWHERE, REFACTORING, Patch, prove_with, release_with
from support.processes.in_process import catch_up
from support.streams.click_files import write_click_files
from support.streams.many_clicks import many_clicks_spec, write_many_clicks
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

UNPACK: Final = "spark/sinks/unpack.py"
ROWS: Final = "                    yield shape.rows(rows, origin)\n"
BAD: Final = {
    "drops rows": Patch(UNPACK, ROWS, ROWS.replace("rows,", "rows.slice(1),")),
    "doubles rows": Patch(UNPACK, ROWS, ROWS + ROWS),
    "cuts elsewhere": CUTS_ELSEWHERE,
    "rounds a measure": Patch(
        "spark/sinks/guarded_aggregates.py",
        "        return _drop_impossible_years(found)\n",
        "        return _drop_impossible_years(found).withColumn('spent', F.round('spent', 0))\n",
    ),
    "takes another key": Patch(
        "spark/ingest/guard.py",
        '        optional(mapping.key, "string").alias(schema.KEY),\n',
        '        F.substring(optional(mapping.key, "string"), 1, 2).alias(schema.KEY),\n',
    ),
    "dies at batch 3": Patch(
        "spark/sinks/write.py",
        "        emitted.persist(StorageLevel.DISK_ONLY)\n",
        "        emitted.persist(StorageLevel.DISK_ONLY)\n        assert batch_id != 3, 'no'\n",
    ),
}


@pytest.fixture(scope="module")
def stage(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    spec = clicks_spec(1) | {"measures": {"spent": "sum(amount)"}}
    stage = Stage.set_up(tmp_path_factory.mktemp("released"), spec)
    write_click_files(stage.feed, 6, rate=12)
    return streamed(spark, stage)


def streamed(spark: SparkSession, stage: Stage) -> Stage:
    catch_up(spark, stage)
    assert stage.lineage
    write_lineage_spec(stage.stream_home, stage.lineage, new_record(stage.stream_home, stage.spec()))
    return stage


@pytest.mark.long
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_release_does_not_pass(stage: Stage, tmp_path: Path, kind: str) -> None:
    code, told = prove_with(release_with(BAD[kind], tmp_path), stage)
    assert code == ReplayDiffers.exit_code
    if kind == "dies at batch 3":
        assert (told["verdict"], told["died"]["batch_id"]) == ("died", 3)
        return
    assert told["verdict"] == "unexplained"
    assert told["unexplained"] > 0
    found = {(each["difference"]["kind"], *each["difference"]["columns"]) for each in told["tables"][0]["differences"]}
    if kind == "rounds a measure":
        assert found == {("columns_differ", "spent")}
    else:
        assert {"drops rows": ("only_old",), "doubles rows": ("only_new",)}.get(kind, ("only_new",)) in found


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_a_refactoring_over_a_million_events_passes(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path / "many", many_clicks_spec(maxFilesPerTrigger="1"))
    write_many_clicks(stage.feed, 1_200_000, files=12)
    streamed(spark, stage)
    code, told = prove_with(release_with(REFACTORING, tmp_path), stage, "--batches", "40", within_s=2_400)
    assert (code, told["verdict"], told["unexplained"]) == (0, "equal", 0)
    assert told["events"] >= 1_000_000
    sessions = told["tables"][0]
    assert sessions["old"] == sessions["new"] == sessions["identical"] > 100_000
