"""A rescale, the rollback of one, and a move to another data root: the stream goes on as one that was never stopped."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.cli.state_commands.course import canary_line
from sessionizer.control.execution import execute
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import Ending, OperationStage, pending_operation
from sessionizer.deployment.differences import Division
from sessionizer.deployment.running_spec import choose_spec
from sessionizer.errors import DataAway, DataElsewhere, NoWayBack, PlanChanged
from sessionizer.home.data_files import copy_file, files_below, relative_name
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.lineage.fingerprint import require_checkpoint, require_readable_lineage
from sessionizer.spark.sinks.examine import require_continuity
from sessionizer.spark.state.commands import restores
from sessionizer.spark.state.commands.moves import RescaleRunner
from sessionizer.spark.state.commands.restores import RollbackRunner, SparkFacts
from sessionizer.state.commands.moves import Rescale, plan_rescale
from sessionizer.state.commands.registry import downtime_of
from sessionizer.state.commands.restores import Rollback
from sessionizer.state.commands.return_plans import plan_rollback
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.stream_spec.spec_folder import read_spec_file
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, assert_landed, assert_path_as_defined, batches_of
from support.places import REPOSITORY, known, opened
from support.processes.in_process import catch_up, drain
from support.releases.environments import type_with
from support.stores.control_fixtures import AND_ON_HDFS_IN_THE_LONG_RUN
from support.streams.click_files import write_aside
from support.streams.stage import Stage, clicks_spec
from support.verbs.begun_restore import approved
from support.verbs.reseeded_stream import reseed
from support.verbs.restored_stream import SAVED_AFTER, Restored
from support.verbs.scripted_runner import Killed


@AND_ON_HDFS_IN_THE_LONG_RUN
def test_a_stream_that_was_rescaled_goes_on_as_one_that_was_not(
    spark: SparkSession, tmp_path: Path, data: str | None
) -> None:
    moved = Stage.begun(tmp_path / "moved", clicks_spec(), data=data)
    clicks, files = write_aside(tmp_path, 4)
    moved.bring(files[:2])
    catch_up(spark, moved)
    home, before = moved.stream_home, str(moved.lineage)

    typed = ("--key-groups", "6", "--partitions", "3")
    shown = type_with(REPOSITORY, "rescale", moved, *typed)
    assert shown.returncode == 0, shown.stderr
    plan, other = (plan_rescale(moved.name, read_committed_batch(home), *division) for division in ((6, 3), (8, None)))
    expected = known(downtime_of(home, Rescale.name, new_lineage=True))
    assert shown.stdout.splitlines() == [
        *plan.lines(),
        f"  {canary_line(CanaryTerms())}",
        f"  {expected.line()}",
        f"to run it: the same command with --approve {plan.digest}",
    ]
    assert moved.lineage == before, "nobody approved it"

    done = type_with(REPOSITORY, "rescale", moved, *typed, "--approve", plan.digest)
    assert done.returncode == 0, done.stderr
    rescaled = moved.lineage
    assert rescaled != before
    assert f"lineage {rescaled}: 6 key groups" in done.stdout
    assert " 3 partitions" in done.stdout
    assert "key_groups: 4" in done.stderr
    assert plan_rescale(moved.name, read_committed_batch(home), None, None).before == Division(6, 3)
    runner = RescaleRunner(spark=spark, home=home, command=Rescale(key_groups=8), key_groups=6)
    with pytest.raises(PlanChanged) as raised:
        execute(approved(runner, digest=other.digest), runner)
    assert (raised.value.approved, moved.lineage) == (other.digest, rescaled), "it was approved for another lineage"

    moved.write_spec({**clicks_spec(), "key_groups": 6})
    running = choose_spec(home, read_spec_file(moved.streams, moved.name), apply=True)
    assert (running.applied, running.pending) == ((), ()), "the file says what is run"
    require_continuity(spark, running, home, str(moved.lineage))
    moved.bring(files[2:])
    drain(spark, moved)
    assert_path_as_defined(moved, clicks)


@AND_ON_HDFS_IN_THE_LONG_RUN
def test_a_stream_goes_back_as_if_the_later_lineage_had_never_been(
    spark: SparkSession, tmp_path: Path, data: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = Stage.begun(tmp_path / "moved", clicks_spec(), data=data)
    (clicks, files), home = write_aside(tmp_path, 4), moved.stream_home
    moved.bring(files[:1])
    catch_up(spark, moved)
    first = moved.lineage
    with pytest.raises(NoWayBack, match="without the state"):
        plan_rollback(home, SparkFacts(spark))

    moved.write_spec({**clicks_spec(gap_timeout="5 seconds"), "key_groups": 6})  # a bad release: too many sessions
    second = reseed(spark, moved)
    moved.bring(files[1:3])
    catch_up(spark, moved)
    plan = plan_rollback(home, SparkFacts(spark))
    assert (plan.leaves, plan.verb, plan.lineage) == (second, "rescale", first)
    assert plan.tables[0].rows > 0
    assert plan.replay.items == 2
    assert any(line.startswith(f"  to    lineage {first}, after batch {plan.batch_id}: ") for line in plan.lines())

    runner = RollbackRunner(spark=spark, home=home, command=Rollback())
    stale = approved(runner, digest="0" * 16)
    with pytest.raises(PlanChanged):
        execute(stale, runner)
    assert (stale.record.outcome, moved.lineage) == (Ending.ABANDONED, second)

    def die(*_: object) -> None:
        raise Killed

    begun = approved(runner)
    with monkeypatch.context() as patched:
        patched.setattr(restores, "activate_lineage", die)
        with pytest.raises(Killed):
            execute(begun, RollbackRunner(spark=spark, home=home, command=Rollback()))
    pending = known(pending_operation(home))
    assert pending.step is OperationStage.TAKEN_BACK
    runner = RollbackRunner(spark=spark, home=home, command=Rollback())
    done = execute(Operation(home, pending, lambda: None), runner)
    assert (done.outcome, done.lineage_to, moved.lineage) == (Ending.DONE, first, first)
    assert "sessions " in done.counts
    again = execute(Operation(home, pending, lambda: None), runner)
    assert again.lineage_to == first, "it was killed after its last step"

    moved.write_spec(clicks_spec())
    moved.bring(files[3:])
    drain(spark, moved)
    assert_as_defined(moved, clicks)


def content(folder: DataPath) -> dict[str, bytes]:
    return {relative_name(file, folder): opened(file).read_bytes() for file in files_below(folder)}


@pytest.mark.long
@pytest.mark.parametrize("store", ["path", "hdfs"])
def test_a_stream_goes_on_in_another_data_root_with_all_that_its_tables_had(
    spark: SparkSession, tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    """A user copies the tables, notes it, and restores. The old tables are as before."""
    root = uri_of(tmp_path / "elsewhere" if store == "path" else request.getfixturevalue("hdfs_folder"))
    restored = Restored.set_up(spark, tmp_path)
    left, stage = restored.stage.stream_home, replace(restored.stage, data=root)
    tables, checkpoint = content(left.tables), content(left.checkpoint(restored.before))
    for name in tables:
        target = stage.stream_home.tables / name
        opened(target.parent).mkdir(parents=True, exist_ok=True)
        copy_file(left.tables / name, target)
    noted = CliRunner().invoke(app, ["home", "--home", str(stage.home), "--moved-here", "--data", root])
    assert noted.exit_code == 0, noted.exception
    with pytest.raises(DataElsewhere):
        require_readable_lineage(left, restored.before)
    with pytest.raises(DataAway):
        require_checkpoint(stage.stream_home, restored.before)
    there = replace(restored, stage=stage)
    assert there.restore().counts, "rows left the copies"
    assert (content(left.tables), content(left.checkpoint(restored.before))) == (tables, checkpoint)
    require_readable_lineage(stage.stream_home, stage.lineage or "")
    drain(spark, stage)
    then = CheckpointLog(left.checkpoint(restored.before)).committed()[: SAVED_AFTER + 1]
    since = CheckpointLog(stage.checkpoint).committed()[1:]
    rows = [row for name in sorted(restored.files) for row in restored.files[name]]
    assert_landed(stage, batches_of([*then, *since], restored.files), rows)
