"""A lineage that does worse than the one before is left again by its own driver, if that was approved with the verb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.lease import acquire
from sessionizer.control.records.operation_record import Ending, OperationStage, pending_operation, read_operations
from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.errors import LineageLeft, LineageUnfit
from sessionizer.fleet.streams import one_stream
from sessionizer.lineage.canary.canary_record import promote_lineage, read_canary
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from sessionizer.spark.driver.auto_rollback import roll_back_if_due
from sessionizer.spark.driver.driver_loop import drive
from sessionizer.spark.driver.options import DriverOptions
from sessionizer.spark.state.commands import restores
from sessionizer.state.commands.restore import Restore
from sessionizer.stream_spec.spec_folder import SpecFile
from support.expected.landed import assert_as_defined, landed
from support.places import opened
from support.processes.driver_process import DriverProcess
from support.processes.in_process import catch_up, drain
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec
from support.verbs.reseeded_stream import Killed, reseed
from support.verbs.restored_stream import Restored

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

REFUSING = {**clicks_spec()["mapping"], "event_time": "cast(null as timestamp)"}


def run(stage: Stage, uid: str) -> None:
    file, options = SpecFile(stage.name, stage.spec()), DriverOptions(uid, master="local[2]")
    drive(stage.stream_home, file, options, lambda _: None)


@dataclass
class Failed:
    """A stream whose second lineage refused all that it read: its driver has ended."""

    stage: Stage
    first: str
    second: str
    files: list[Path]


@pytest.fixture
def failed(spark: SparkSession, tmp_path: Path) -> Failed:
    stage = Stage.begun(tmp_path / "moved", clicks_spec())
    write_click_files(tmp_path / "clicks", files=3)
    files = sorted((tmp_path / "clicks").iterdir())
    stage.bring(files[:1])
    catch_up(spark, stage)
    first = stage.lineage
    assert first is not None
    stage.write_spec({**clicks_spec(), "mapping": REFUSING})
    second = reseed(spark, stage, canary=CanaryTerms(batches=2, goes_back=True))
    stage.bring(files[1:])
    with pytest.raises(LineageLeft, match=r": 100% .* refused, \d% before"):
        run(stage, "unfit")
    stage.write_spec(clicks_spec())
    return Failed(stage, first, second, files)


def die(*_: object) -> None:
    raise Killed


def test_a_lineage_that_fails_is_left_again_whoever_is_killed(failed: Failed, monkeypatch: pytest.MonkeyPatch) -> None:
    home = failed.stage.stream_home
    ended, canary = EXIT_FILE.of(home, "unfit").read(), read_canary(home, failed.second)
    assert ended is not None
    assert (ended.error_type, ended.terminal) == ("LineageLeft", False)
    assert canary is not None
    assert (canary.outcome, canary.course.before) == (CanaryOutcome.FAILED, failed.first)
    shown = one_stream(failed.stage.home, failed.stage.streams, failed.stage.name).canary_line
    assert failed.second in (shown or "")

    with monkeypatch.context() as patched:
        patched.setattr(restores, "activate_lineage", die)
        with pytest.raises(Killed):
            run(failed.stage, "killed")
    begun = pending_operation(home)
    assert begun is not None
    assert begun.step is OperationStage.TAKEN_BACK
    assert begun.by.endswith(f" {failed.second}")

    lease = acquire(home, "next")
    said: list[str] = []
    options = DriverOptions("next", master="local[2]")
    for _ in range(2):
        roll_back_if_due(home, lease, options, said.append)
    lease.release()
    (line,) = [line for line in said if line.startswith("back in lineage")]
    assert failed.first in line
    (done,) = read_operations(home)
    assert (done.outcome, done.lineage_to, failed.stage.lineage) == (Ending.DONE, failed.first, failed.first)
    assert opened(home.lineage(failed.second).checkpoint).exists(), "the one that failed is kept"


@pytest.mark.long
def test_a_lineage_that_is_promoted_while_its_rollback_begins_is_kept(failed: Failed) -> None:
    """The driver has read the canary, and starts Spark."""

    def promote(line: str) -> None:
        said.append(line)
        if "rolling back" in line:
            promote_lineage(home, "ann")

    home, said = failed.stage.stream_home, list[str]()
    lease = acquire(home, "next")
    roll_back_if_due(home, lease, DriverOptions("next", master="local[2]"), promote)
    assert said[-1].startswith("no rollback")
    (given_up,) = read_operations(home)
    assert (given_up.outcome, given_up.lineage_to, failed.stage.lineage) == (Ending.ABANDONED, None, failed.second)
    roll_back_if_due(home, lease, DriverOptions("next", master="local[2]"), promote)
    assert len(said) == 2, "nor does the next driver roll back"


@pytest.mark.long
def test_a_driver_goes_back_and_on_as_if_the_lineage_had_never_been(
    spark: SparkSession, failed: Failed, tmp_path: Path
) -> None:
    with DriverProcess.start(failed.stage, "next") as driver:
        assert driver.wait() == 0, driver.said
        assert f"back in lineage {failed.first}" in driver.said
    steady = Stage.begun(tmp_path / "steady", clicks_spec())
    steady.bring(failed.files)
    drain(spark, steady)
    assert landed(steady).sessions
    assert landed(failed.stage) == landed(steady)


@pytest.mark.long
def test_a_restored_lineage_that_fails_is_left_for_that_of_the_savepoint(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.begun(tmp_path / "restored", clicks_spec())
    clicks = write_click_files(stage.feed, files=2)
    catch_up(spark, stage)
    home, before = stage.stream_home, str(stage.lineage)
    restored = Restored.saved(spark, stage, None, clicks)
    done = restored.restore(command=Restore(canary=1, roll_back_if_failed=True))
    assert stage.lineage == done.lineage_to != before
    (stage.feed / "bad.json").write_bytes(b"no click\n" * 200)
    with pytest.raises(LineageLeft):
        run(stage, "unfit")
    lease = acquire(home, "next")
    roll_back_if_due(home, lease, DriverOptions("next", master="local[2]"), lambda _: None)
    lease.release()
    assert stage.lineage == before
    (stage.feed / "bad.json").unlink()
    drain(spark, stage)
    assert_as_defined(stage, clicks)


@pytest.mark.long
def test_a_driver_whose_canary_fails_ends_with_the_error_and_its_remedy(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.begun(tmp_path / "moved", clicks_spec())
    write_click_files(tmp_path / "clicks", files=2)
    files = sorted((tmp_path / "clicks").iterdir())
    stage.bring(files[:1])
    catch_up(spark, stage)
    stage.write_spec({**clicks_spec(), "mapping": REFUSING})
    reseed(spark, stage, canary=CanaryTerms(batches=1))
    stage.bring(files[1:])
    with DriverProcess.start(stage, "unfit") as driver:
        assert driver.wait() == LineageUnfit.exit_code, driver.said
    _, said, after = driver.said.partition("\nremedy: ")
    assert said
    assert len(after.splitlines()) == 1, after
