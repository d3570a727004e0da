"""Back to the lineage before: what the later one wrote is gone, and the stream goes on as if it had never been."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionizer.control.execution import execute
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import Ending, OperationStage, pending_operation
from sessionizer.errors import NoWayBack, PlanChanged
from sessionizer.spark.state.commands import restores
from sessionizer.spark.state.commands.restores import RollbackRunner, SparkFacts
from sessionizer.state.commands.restores import Rollback
from sessionizer.state.commands.return_plans import plan_rollback
from support.expected.landed import assert_as_defined
from support.processes.in_process import catch_up, drain
from support.stores.control_fixtures import AND_ON_HDFS_IN_THE_LONG_RUN
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec
from support.verbs.reseeded_stream import reseed
from support.verbs.scene_verbs import approved
from support.verbs.scripted_runner import Killed


def operation_of(spark: SparkSession, stage: Stage) -> Operation:
    return approved(
        stage.stream_home, Rollback.name, RollbackRunner(spark=spark, home=stage.stream_home, command=Rollback()).look()
    )


@AND_ON_HDFS_IN_THE_LONG_RUN
def test_it_goes_on_as_if_the_later_lineage_had_never_been(
    spark: SparkSession, tmp_path: Path, data: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = Stage.begun(tmp_path / "moved", clicks_spec(), data=data)
    clicks = write_click_files(tmp_path / "clicks", files=4)
    files = sorted((tmp_path / "clicks").iterdir())
    moved.bring(files[:1])
    catch_up(spark, moved)
    first = moved.lineage
    with pytest.raises(NoWayBack, match="without the state"):
        plan_rollback(moved.stream_home, SparkFacts(spark))

    moved.write_spec({**clicks_spec(gap_timeout="5 seconds"), "key_groups": 6})  # a bad release: too many sessions
    second = reseed(spark, moved)
    moved.bring(files[1:3])
    catch_up(spark, moved)
    plan = plan_rollback(moved.stream_home, SparkFacts(spark))
    assert (plan.leaves, plan.verb, plan.lineage) == (second, "rescale", first)
    assert plan.tables[0].rows > 0
    assert plan.replay.items == 2
    assert any(line.startswith(f"  to    lineage {first}, after batch {plan.batch_id}: ") for line in plan.lines())

    stale = Operation(
        moved.stream_home, new_operation(moved.stream_home, Rollback.name, "0" * 16, "ann", (second, 1)), lambda: None
    )
    with pytest.raises(PlanChanged):
        execute(stale, RollbackRunner(spark=spark, home=moved.stream_home, command=Rollback()))
    assert stale.record.outcome is Ending.ABANDONED
    assert moved.lineage == second

    def die(*_: object) -> None:
        raise Killed

    begun = operation_of(spark, moved)
    with monkeypatch.context() as patched:
        patched.setattr(restores, "activate_lineage", die)
        with pytest.raises(Killed):
            execute(begun, RollbackRunner(spark=spark, home=moved.stream_home, command=Rollback()))
    pending = pending_operation(moved.stream_home)
    assert pending is not None
    assert pending.step is OperationStage.TAKEN_BACK
    runner = RollbackRunner(spark=spark, home=moved.stream_home, command=Rollback())
    done = execute(Operation(moved.stream_home, pending, lambda: None), runner)
    assert (done.outcome, done.lineage_to, moved.lineage) == (Ending.DONE, first, first)
    assert "sessions " in done.counts
    again = execute(Operation(moved.stream_home, pending, lambda: None), runner)
    assert again.lineage_to == first, "it was killed after its last step"

    moved.write_spec(clicks_spec())
    moved.bring(files[3:])
    drain(spark, moved)
    assert_as_defined(moved, clicks)
