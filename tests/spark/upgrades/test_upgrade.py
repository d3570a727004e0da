"""An upgrade over another line of Spark and a patch of Delta: open sessions whole, the lineage before kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.execution import execute
from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.errors import EngineChanged, NotAccepted
from sessionizer.lineage.fingerprint import (
    DELTA,
    FINGERPRINT_FILE,
    SPARK,
    present_fingerprint,
    require_same_engine,
    write_fingerprint,
)
from sessionizer.spark.state.commands.apply import ApplyRunner
from sessionizer.state.commands.upgrade import Upgrade
from sessionizer.state.lineages.origin import lineage_before
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.places import opened
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage, clicks_spec
from support.verbs.typed_verbs import approved

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Stage:
    """A stream with one open session, whose lineage another line of Spark is noted to have made."""
    stage = Stage.begun(tmp_path, clicks_spec())
    (stage.feed / "0.json").write_bytes(line(0))
    catch_up(spark, stage)
    note_made_by(stage, SPARK, "4.1.9")
    return stage


def note_made_by(stage: Stage, program: str, version: str) -> None:
    assert stage.lineage
    born = present_fingerprint()
    write_fingerprint(stage.stream_home, stage.lineage, replace(born, versions={**born.versions, program: version}))


def upgrading(spark: SparkSession, stage: Stage, *accepted: str) -> ApplyRunner:
    home, command = stage.stream_home, Upgrade(accept=accepted)
    return ApplyRunner(spark=spark, home=home, command=command, spec=stage.spec(), savepoints=home.savepoints)


@pytest.mark.parametrize(("sql", "is_same"), [("upper((user_id))", True), ("lower(user_id)", False)])
def test_spark_finds_an_expression_that_is_only_written_otherwise(
    spark: SparkSession, tmp_path: Path, sql: str, is_same: bool
) -> None:
    mapping = clicks_spec()["mapping"]
    stage = Stage.begun(tmp_path, {**clicks_spec(), "mapping": {**mapping, "key": "upper(user_id)"}})
    (stage.feed / "0.json").write_bytes(line(0))
    catch_up(spark, stage)
    stage.write_spec({**clicks_spec(), "mapping": {**mapping, "key": sql}})
    (found,) = upgrading(spark, stage).look().decision.differences
    assert found.name == "mapping.key"
    assert found.verdict == ("in place" if is_same else "partial")
    if is_same:
        assert carry_out(upgrading(spark, stage)) == stage.lineage
        assert not upgrading(spark, stage).look().is_needed


@pytest.mark.long
def test_without_the_open_sessions_it_goes_on_from_the_same_place(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.begun(tmp_path, clicks_spec())
    (stage.feed / "0.json").write_bytes(line(0))
    catch_up(spark, stage)
    home, before = stage.stream_home, stage.lineage
    command = Upgrade(stateless=True)
    found = ApplyRunner(spark=spark, home=home, command=command, spec=stage.spec(), savepoints=home.savepoints)
    plan = found.look()
    assert plan.is_possible
    assert "LOST: about 1 open session." in "\n".join(plan.decision.lines())
    assert carry_out(found) == stage.lineage != before
    (stage.feed / "1.json").write_bytes(line(1))
    catch_up(spark, stage)
    drain(spark, stage)
    (session,) = table_rows(stage.table("sessions"))
    assert session["event_count"] == 1, "the event after the upgrade alone: the one before it is not read again"
    assert len(list(opened(home.savepoints).iterdir())) == 1, "the way back"


def carry_out(found: ApplyRunner) -> str:
    done = execute(approved(found.home, Upgrade.name, found.look()), found)
    assert done.outcome is Ending.DONE
    return str(done.lineage_to)


def test_an_upgrade_of_the_engine_keeps_open_sessions_and_the_lineage_before(spark: SparkSession, stage: Stage) -> None:
    home, before = stage.stream_home, stage.lineage
    with pytest.raises(NotAccepted):
        carry_out(upgrading(spark, stage))
    assert (read_operations(home)[-1].outcome, stage.lineage) == (Ending.ABANDONED, before)

    after = carry_out(upgrading(spark, stage, SPARK))
    assert (stage.lineage, lineage_before(home, after)) == (after, before)
    noted = FINGERPRINT_FILE.of(home, after).require()
    assert noted is not None
    assert noted.versions[SPARK] == spark.version
    require_same_engine(home, after)
    with pytest.raises(EngineChanged):
        require_same_engine(home, str(before))

    note_made_by(stage, DELTA, "4.4.99")
    assert carry_out(upgrading(spark, stage)) == after, "a patch release is taken in place"
    assert not upgrading(spark, stage).look().is_needed

    (stage.feed / "1.json").write_bytes(line(1))
    catch_up(spark, stage)
    drain(spark, stage)
    (session,) = table_rows(stage.table("sessions"))
    assert session["event_count"] == 2, "the event before the upgrade and the one after it"
