"""A changed spec that is applied: with every open session, as the definition has a stream whose spec changes."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionizer.cli.state_commands.course import is_done_already
from sessionizer.control.execution import execute
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import Ending, OperationStage, pending_operation
from sessionizer.core.definition.rules import Clock
from sessionizer.deployment.upgrade_plan import APPLY, UpgradeRequest, plan_upgrade
from sessionizer.errors import InvalidSpec, PlanChanged
from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.canary.canary_record import read_canary
from sessionizer.lineage.kept_spec import SPEC_FILE, LineageSpec
from sessionizer.spark.state.commands.moves import ApplyRunner
from sessionizer.state.commands.upgrades import Apply
from sessionizer.state.lineages.origin import lineage_before
from sessionizer.state.savepoints.listing import list_savepoints
from sessionizer.stream_spec.decisions import document_of
from support.processes.in_process import catch_up
from support.streams.changing_stream import (
    conflicts_defined,
    conflicts_in,
    late_defined,
    late_in,
    sessions_defined,
    sessions_in,
)
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec
from support.streams.strategies import Log, examples_of, logs
from support.verbs.reseeded_stream import tell_reseeded
from support.verbs.scene_verbs import approved
from support.verbs.scripted_runner import Killed


def applying(spark: SparkSession, stage: Stage, *, anew: bool = False) -> ApplyRunner:
    """Whatever open sessions lack is accepted."""
    home, spec = stage.stream_home, stage.spec()
    lacking = plan_upgrade(home, (stage.lineage or "", 0), spec, UpgradeRequest(APPLY)).unaccepted
    command = Apply(new_lineage=anew, accept=tuple(each.name for each in lacking))
    return ApplyRunner(spark=spark, home=home, command=command, spec=spec, savepoints=home.savepoints)


def operation_of(found: ApplyRunner) -> Operation:
    return approved(found.home, APPLY, found.look())


def apply_anew(spark: SparkSession, stage: Stage, _: int) -> str:
    found, before = applying(spark, stage, anew=True), stage.lineage
    lineage = execute(operation_of(found), found).lineage_to
    assert lineage is not None
    assert (stage.lineage, lineage_before(found.home, lineage)) == (lineage, before)
    canary = read_canary(found.home, lineage)
    assert canary is not None
    assert (canary.verb, canary.before, canary.outcome) == (APPLY, before, None)
    assert canary.baseline.life.read > 0
    return lineage


def rich_log(batches: int) -> Log:
    found = examples_of(logs([Clock.EVENT_TIME], drained=True), 300)
    return next(
        log for log in found if len(log.batches) == batches and sum(len(batch.events) for batch in log.batches) >= 20
    )


@pytest.mark.long
@pytest.mark.parametrize(("drivers", "batches"), [(2, 4), (4, 8)])
def test_a_stream_that_goes_on_by_changed_specs_equals_the_definition(
    spark: SparkSession, tmp_path: Path, drivers: int, batches: int
) -> None:
    told = tell_reseeded(spark, rich_log(batches), seed=5, drivers=drivers, root=tmp_path, go_on=apply_anew)
    outcome = told.outcome()
    assert len(told.editions) == drivers
    assert not outcome.open_events, "the last batch drains"
    assert sessions_in(told) == sessions_defined(told, outcome)
    assert late_in(told) == late_defined(outcome)
    assert conflicts_in(told) == conflicts_defined(outcome)


def test_what_needs_no_new_lineage_is_applied_in_place_and_a_kill_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    mapping = clicks_spec()["mapping"]
    mapping = {**mapping, "payload": {**mapping["payload"], "units": "cast(amount as int)"}}
    stage = Stage.set_up(tmp_path, {**clicks_spec(), "mapping": mapping})
    home = stage.stream_home
    home.prepare()
    lineage = start_lineage(home, spec=LineageSpec(document_of(stage.spec())))
    write_click_files(stage.feed, files=1)
    catch_up(spark, stage)

    wider = {**mapping, "payload": {**mapping["payload"], "units": "cast(amount as bigint)"}}
    stage.write_spec({**clicks_spec(), "mapping": wider})
    with pytest.raises(InvalidSpec, match=r"mapping\.payload\.units is '.*bigint.* table sessions"):
        applying(spark, stage).look().require_possible()

    narrower = {**mapping, "payload": {**mapping["payload"], "amount": "cast(amount as int)"}}
    stage.write_spec({**clicks_spec(), "mapping": narrower})
    with pytest.raises(InvalidSpec, match=r"mapping\.payload\.amount is '.*\(int\)"):
        applying(spark, stage).look().require_possible()

    stage.write_spec({**clicks_spec(gap_timeout="5 seconds"), "mapping": mapping})
    found = applying(spark, stage)
    begun = operation_of(found)

    def die(step: str) -> None:
        assert step.startswith("savepoint: apply-")
        raise Killed

    found.say = die
    with pytest.raises(Killed):
        execute(begun, found)
    pending = pending_operation(home)
    assert pending is not None
    assert pending.step is OperationStage.STOPPED
    done = execute(Operation(home, pending, lambda: None), applying(spark, stage))
    assert (done.outcome, done.lineage_to, stage.lineage) == (Ending.DONE, lineage, lineage)
    noted = SPEC_FILE.of(home, lineage).require()
    assert noted is not None
    assert noted.document == document_of(stage.spec())
    assert [savepoint.id for savepoint in list_savepoints(home.savepoints, epoch_ms())] == [f"apply-{pending.id}"]
    saved = Operation(home, replace(pending, step=OperationStage.SAVED), lambda: None)
    assert execute(saved, applying(spark, stage)).lineage_to == lineage, "killed after it"
    assert read_canary(home, lineage) is None
    assert not applying(spark, stage).look().is_needed
    assert is_done_already(home, APPLY, done.digest)

    stage.write_spec({**clicks_spec(), "key_groups": 6})
    found = applying(spark, stage)
    begun = operation_of(found)
    stage.write_spec({**clicks_spec(), "key_groups": 7})
    with pytest.raises(PlanChanged):
        execute(begun, applying(spark, stage))
    assert (begun.record.outcome, stage.lineage) == (Ending.ABANDONED, lineage)
