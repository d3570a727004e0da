"""A rescale: shown, approved, carried out; the stream goes on in other key groups as one that was never stopped."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionizer.cli.state_commands.course import canary_line
from sessionizer.control.execution import execute
from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import pending_operation, require_no_operation
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.deployment.differences import Division
from sessionizer.deployment.running_spec import choose_spec
from sessionizer.errors import OperationPending, PlanChanged
from sessionizer.lineage.active import active_lineage, start_lineage
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.spark.sinks.examine import require_continuity
from sessionizer.spark.state.commands.moves import RescaleRunner
from sessionizer.state.commands.command import Plan
from sessionizer.state.commands.moves import Rescale, RescalePlan, plan_rescale
from sessionizer.state.commands.registry import downtime_of
from sessionizer.state.lineages.committed_batch import LineageStep, read_committed_batch
from sessionizer.stream_spec.spec_folder import read_spec_file
from support.expected.landed import assert_moved_as_defined
from support.places import REPOSITORY, opened
from support.processes.driver_process import environment
from support.processes.in_process import catch_up, drain
from support.stores.control_fixtures import AND_ON_HDFS_IN_THE_LONG_RUN
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec
from support.verbs.begun_restore import run_here
from support.verbs.scene_verbs import approved
from support.verbs.scripted_runner import Killed

PROGRAM_WITHIN_S = 300


def rescale(stage: Stage, *options: str) -> subprocess.CompletedProcess[str]:
    places: tuple[str, ...] = ("--streams", str(stage.streams), "--home", str(stage.home), "--master", "local[2]")
    places += () if stage.data is None else ("--data", stage.data)
    argv = [sys.executable, str(REPOSITORY / "jobs" / "main.py"), "rescale", stage.name, *options, *places]
    return subprocess.run(
        argv, env=environment(), capture_output=True, text=True, timeout=PROGRAM_WITHIN_S, check=False
    )


@AND_ON_HDFS_IN_THE_LONG_RUN
def test_a_stream_that_was_rescaled_goes_on_as_one_that_was_not(
    spark: SparkSession, tmp_path: Path, data: str | None
) -> None:
    moved = Stage.begun(tmp_path / "moved", clicks_spec(), data=data)
    clicks = write_click_files(tmp_path / "clicks", files=4)
    files = sorted((tmp_path / "clicks").iterdir())
    moved.bring(files[:2])
    catch_up(spark, moved)
    home, before = moved.stream_home, str(moved.lineage)

    shown = rescale(moved, "--key-groups", "6", "--partitions", "3")
    assert shown.returncode == 0, shown.stderr
    plan = plan_rescale(moved.name, read_committed_batch(home), 6, 3)
    expected = downtime_of(home, Rescale.name, new_lineage=True)
    assert expected is not None
    assert shown.stdout.splitlines() == [
        *plan.lines(),
        f"  {canary_line(CanaryTerms())}",
        f"  {expected.line()}",
        f"to run it: the same command with --approve {plan.digest}",
    ]
    assert moved.lineage == before, "nobody approved it"

    done = rescale(moved, "--key-groups", "6", "--partitions", "3", "--approve", plan.digest)
    assert done.returncode == 0, done.stderr
    assert moved.lineage != before
    assert f"lineage {moved.lineage}: 6 key groups" in done.stdout
    assert " 3 partitions" in done.stdout
    assert "key_groups: 4" in done.stderr
    committed = read_committed_batch(home)
    assert plan_rescale(moved.name, committed, None, None).before == Division(6, 3)

    moved.write_spec({**clicks_spec(), "key_groups": 6})
    running = choose_spec(home, read_spec_file(moved.streams, moved.name), apply=True)
    assert (running.applied, running.pending) == ((), ()), "the file says what is run"
    require_continuity(spark, running, home, str(moved.lineage))
    moved.bring(files[2:])
    drain(spark, moved)
    assert_moved_as_defined(moved, clicks, before)


@pytest.fixture
def stopped(spark: SparkSession, tmp_path: Path) -> Stage:
    stage = Stage.begun(tmp_path, clicks_spec())
    write_click_files(stage.feed, files=1)
    catch_up(spark, stage)
    return stage


def runner_of(spark: SparkSession, stage: Stage) -> RescaleRunner:
    command, groups = Rescale(key_groups=8), stage.spec().key_groups
    return RescaleRunner(spark=spark, home=stage.stream_home, command=command, key_groups=groups)


def plan_of(stage: Stage) -> Plan[RescalePlan]:
    return Rescale(key_groups=8).plan(stage.name, read_committed_batch(stage.stream_home), stage.spec().key_groups)


def test_only_what_was_approved_is_carried_out(spark: SparkSession, stopped: Stage) -> None:
    home, before = stopped.stream_home, stopped.lineage
    plan = plan_of(stopped)
    start_lineage(home, spec=SPEC_FILE.of(home, str(before)).require())
    stale = active_lineage(home)
    catch_up(spark, stopped)
    with pytest.raises(PlanChanged) as raised:
        execute(approved(home, Rescale.name, plan), runner_of(spark, stopped))
    assert raised.value.approved == plan.digest
    assert active_lineage(home) == stale


def carry_out_by_operation(
    spark: SparkSession, stage: Stage, plan: Plan[RescalePlan], say: Callable[[str], None]
) -> None:
    home, runner = stage.stream_home, runner_of(spark, stage)
    runner.say = say
    record = pending_operation(home) or new_operation(home, Rescale.name, plan.digest, "ann", plan.leaves)
    run_here(home, record, runner)


def die_at(step: LineageStep) -> Callable[[str], None]:
    def die(line: str) -> None:
        if line == f"new lineage: {step}":
            raise Killed

    return die


@pytest.mark.parametrize("step", [pytest.param(LineageStep.SEEDED, marks=pytest.mark.long), LineageStep.ACTIVATED])
def test_killed_no_driver_starts_and_a_second_run_finishes(
    spark: SparkSession, stopped: Stage, step: LineageStep
) -> None:
    home, before = stopped.stream_home, stopped.lineage
    write_desired(home, DesiredState.STOPPED, by="ann", why="at night")
    plan = plan_of(stopped)
    with pytest.raises(Killed):
        carry_out_by_operation(spark, stopped, plan, die_at(step))
    assert read_desired(home).state is DesiredState.MAINTENANCE
    with pytest.raises(OperationPending) as pending:
        require_no_operation(home)
    assert (pending.value.stream, pending.value.verb) == ("clicks", Rescale.name)
    carry_out_by_operation(spark, stopped, plan, lambda _: None)
    require_no_operation(home)
    assert read_desired(home).state is DesiredState.STOPPED
    assert plan_rescale(stopped.name, read_committed_batch(home), None, None).before.key_groups == 8
    assert len(list(opened(home.lineages).iterdir())) == 2
    assert stopped.lineage != before


@pytest.mark.long
def test_what_fails_is_abandoned_and_the_stream_is_wanted_as_before(spark: SparkSession, stopped: Stage) -> None:
    home, before = stopped.stream_home, stopped.lineage

    def fail(_: str) -> None:
        message = "store away"
        raise OSError(message)

    plan = plan_of(stopped)
    with pytest.raises(OSError, match="store away"):
        carry_out_by_operation(spark, stopped, plan, fail)
    require_no_operation(home)
    assert (read_desired(home).state, stopped.lineage) == (DesiredState.RUNNING, before)
