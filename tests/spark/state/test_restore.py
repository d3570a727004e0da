"""Back to a savepoint: the tables end as if what came after it had never been, and then come out as they must.

The ordinary run has two restores of one stream, one of them killed, in `test_histories.py`.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionizer.control.records.operation_record import (
    Ending,
    OperationRecord,
    OperationStage,
    read_operations,
    require_no_operation,
    write_unless_abandoned,
)
from sessionizer.control.records.supervision_records import DesiredState, read_desired
from sessionizer.errors import OperationPending, StateBehindTables, StreamChanged, UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import files_below, list_names, remove_tree
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import GROUP_LOGS, StreamHome
from sessionizer.spark.ingest.punctuation import change_timeouts, read_announced_timeouts
from sessionizer.spark.state.commands import runner
from sessionizer.spark.state.commands.restores import SparkFacts
from sessionizer.spark.state.restores.table_rows import delete_rows
from sessionizer.spark.state.savepoints.saved_state import make_savepoint
from sessionizer.state.commands.restores import Restore
from sessionizer.state.commands.return_plans import plan_restore, saved_path
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.lineages.origin import ORIGIN_FILE, origins_of, path_to, remove_abandoned
from sessionizer.state.restores.row_changes import StreamedTable
from sessionizer.state.savepoints.listing import complete_savepoint
from sessionizer.state.savepoints.manifest import write_manifest
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from sessionizer.state.savepoints.schedule import judge_stream
from sessionizer.state.savepoints.verification import digest_files, require_undamaged
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_landed, batches_of, landed
from support.places import opened
from support.processes.driver_process import DriverProcess
from support.processes.in_process import catch_up, drain
from support.stores.control_fixtures import AND_ON_HDFS_IN_THE_LONG_RUN
from support.verbs.begun_restore import begun_restore, write_operation
from support.verbs.restored_stream import FILES, SAVED_AFTER, Restored
from support.verbs.scripted_runner import Killed


@pytest.fixture
def restored(spark: SparkSession, tmp_path: Path) -> Restored:
    return Restored.set_up(spark, tmp_path)


@pytest.mark.long
def test_the_plan_says_what_leaves_and_what_comes_again_and_changes_nothing(restored: Restored) -> None:
    stage, tables = restored.stage, landed(restored.stage)
    plan = plan_restore(stage.stream_home, restored.savepoint, restored.manifest, SparkFacts(restored.spark), Restore())
    assert plan.leaves == restored.before
    assert plan.newest_batch >= FILES - 1
    assert plan.replay.items == FILES - SAVED_AFTER - 1
    assert not plan.replay.missing
    assert {table.table for table in plan.tables if table.rows} >= {"sessions", "quarantine"}
    (stage.feed / max(restored.files)).unlink()
    drop_files = plan_restore(
        stage.stream_home, restored.savepoint, restored.manifest, SparkFacts(restored.spark), Restore()
    )
    assert drop_files.replay.missing
    assert drop_files.digest == plan.digest
    assert landed(stage) == tables
    assert stage.lineage == restored.before
    hurt = next(file for file in files_below(restored.savepoint.root) if file.name.endswith(".parquet"))
    content = bytearray(opened(hurt).read_bytes())
    content[len(content) // 2] ^= 1
    opened(hurt).write_bytes(bytes(content))
    with pytest.raises(UnusableSavepoint, match="is changed"):
        plan_restore(stage.stream_home, restored.savepoint, restored.manifest, SparkFacts(restored.spark), Restore())


def test_a_home_from_before_a_restore_is_refused_and_another_restore_brings_the_deleted_rows_back(
    restored: Restored, tmp_path: Path
) -> None:
    """The restore deleted rows of the lineage that goes on, and its own lineage wrote none."""
    spark, home, tables = restored.spark, restored.stage.stream_home, "tables"
    newest = SavepointRequest(home.savepoints, "tests", "newest")
    make_savepoint(spark, home, read_committed_batch(home), newest, lambda _: None)
    before = landed(restored.stage)
    shutil.copytree(opened(home.root), tmp_path / "older", ignore=shutil.ignore_patterns(tables))
    forgotten = restored.restore(mint_id(epoch_ms()))
    assert landed(restored.stage) != before
    for part in opened(home.root).iterdir():
        if part.name != tables:
            shutil.rmtree(part)
    shutil.copytree(tmp_path / "older", opened(home.root), dirs_exist_ok=True)
    assert restored.stage.lineage == restored.before
    with DriverProcess.start(restored.stage, "old-home", "caught-up") as driver:
        assert driver.wait() == StateBehindTables.exit_code
        assert forgotten.id in driver.said
    restored.savepoint, restored.manifest = complete_savepoint(home.savepoints, "newest", epoch_ms())
    restored.restore(mint_id(epoch_ms()))
    assert landed(restored.stage) == before
    drain(spark, restored.stage)
    restored.assert_exact()


class Watched(list[str]):
    """Lines of a command. ``seen``: the desired state of the stream at each. ``do``: called with each."""

    def __init__(self, home: StreamHome, do: Callable[[str], None] = lambda _: None) -> None:
        super().__init__()
        self.home, self.do, self.seen = home, do, dict[str, DesiredState]()

    def append(self, line: str) -> None:
        super().append(line)
        self.seen[line] = read_desired(self.home).state
        self.do(line)


@pytest.mark.parametrize("between", [False, True])
def test_the_new_lineage_is_made_before_the_stop_and_again_if_another_command_was_at_work(
    restored: Restored, between: bool
) -> None:
    home, tables = restored.stage.stream_home, landed(restored.stage)
    first = set[str]()

    def work_between(line: str) -> None:
        if line == "new lineage: compared" and not first:
            first.update(set(list_names(home.lineages)) - {restored.before})
            if between:
                record = replace(begun_restore(mint_id(epoch_ms()), savepoint="other"), outcome=Ending.ABANDONED)
                write_operation(home, record)
                remove_abandoned(home)

    restored.said = Watched(home, work_between)
    restored.restore()
    seen = restored.said.seen
    stopped_at = [seen[f"new lineage: {part}"] for part in ("seeded", "compared", "positioned")]
    running, stopped = DesiredState.RUNNING, DesiredState.MAINTENANCE
    assert stopped_at == ([stopped] * 3 if between else [running, running, stopped])
    assert restored.said.count("new lineage: compared") == (2 if between else 1)
    assert first.isdisjoint({restored.stage.lineage}) is between
    assert len(list_names(home.lineages)) == 2, "what was not taken is gone"
    assert landed(restored.stage) != tables
    drain(restored.spark, restored.stage)
    restored.assert_exact()


@pytest.mark.long
def test_a_native_savepoint_is_gone_back_to_from_a_copy_of_its_files(spark: SparkSession, tmp_path: Path) -> None:
    restored = Restored.set_up(spark, tmp_path, native=True)
    home = restored.stage.stream_home
    plan = plan_restore(home, restored.savepoint, restored.manifest, SparkFacts(spark), Restore())
    assert plan.sessions is None
    assert "not counted" in "\n".join(plan.lines())
    assert plan.replay.items == FILES - SAVED_AFTER - 1
    assert restored.restore().outcome is Ending.DONE
    assert not opened(home.unpacked / "middle").exists()
    require_undamaged(restored.savepoint, restored.manifest)
    drain(spark, restored.stage)
    restored.assert_exact()
    versions = {**restored.manifest.fingerprint.versions, "spark": "3.5.9"}
    other = replace(restored.manifest, fingerprint=replace(restored.manifest.fingerprint, versions=versions))
    with pytest.raises(UnusableSavepoint, match=r"of Spark 3\.5\.9"):
        plan_restore(home, restored.savepoint, other, SparkFacts(spark), Restore())


@pytest.mark.long
def test_a_savepoint_without_logs_is_gone_back_to_by_its_rows(restored: Restored) -> None:
    """So are those of earlier releases, and those whose blobs are of another revision."""
    remove_tree(restored.savepoint.part(GROUP_LOGS))
    files = tuple(digest_files(restored.savepoint).files)
    write_manifest(restored.savepoint, replace(restored.manifest, files=files))
    folder = restored.stage.stream_home.savepoints
    restored.savepoint, restored.manifest = complete_savepoint(folder, restored.savepoint.id, epoch_ms())
    assert restored.restore().outcome is Ending.DONE
    drain(restored.spark, restored.stage)
    restored.assert_exact()


@pytest.mark.long
@AND_ON_HDFS_IN_THE_LONG_RUN
def test_the_stream_goes_on_from_there_and_ends_as_it_must(
    spark: SparkSession, tmp_path: Path, data: str | None
) -> None:
    restored = Restored.set_up(spark, tmp_path, data)
    record = restored.restore()
    home, lineage = restored.stage.stream_home, restored.stage.lineage
    assert lineage
    assert lineage == record.lineage_to != restored.before
    origin = ORIGIN_FILE.of(home, lineage).require()
    assert origin is not None
    assert (origin.verb, origin.parent, origin.savepoint) == ("restore", restored.before, "middle")
    assert (record.outcome, read_desired(home).state) == (Ending.DONE, DesiredState.RUNNING)
    assert record.days
    plan = plan_restore(home, restored.savepoint, restored.manifest, SparkFacts(restored.spark), Restore())
    assert not any(table.rows for table in plan.tables)
    drain(restored.spark, restored.stage)
    restored.assert_exact()


@pytest.mark.long
def test_what_clients_were_given_is_known_to_have_been_passed_on(restored: Restored) -> None:
    home = restored.stage.stream_home
    change_timeouts(home.punctuations(restored.before), {"web": 60_000, "shop": 5_000})
    catch_up(restored.spark, restored.stage)
    make_savepoint(
        restored.spark,
        home,
        read_committed_batch(home),
        SavepointRequest(home.savepoints, "tests", "with_timeouts"),
        lambda _: None,
    )
    restored.savepoint, restored.manifest = complete_savepoint(home.savepoints, "with_timeouts", epoch_ms())
    lineage = restored.restore().lineage_to
    assert lineage
    # else a client that the table of timeouts has lost meanwhile would keep its own for ever
    assert read_announced_timeouts(home.lineage(lineage).announced_timeouts) == {"web": 60_000, "shop": 5_000}


def kill_after(reached: OperationStage, restored: Restored, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a restore die as soon as its record says that it is so far."""

    def die(home: object, record: OperationRecord) -> None:
        write_unless_abandoned(restored.stage.stream_home, record)
        if record.step is reached:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("sessionizer.control.operation.write_unless_abandoned", die)
        with pytest.raises(Killed):
            restored.restore()


@pytest.mark.long
@pytest.mark.parametrize("reached", [OperationStage.STOPPED, OperationStage.SEEDED, OperationStage.TAKEN_BACK])
def test_killed_after_a_step_no_driver_starts_and_a_second_run_finishes(
    restored: Restored, reached: OperationStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_after(reached, restored, monkeypatch)
    home = restored.stage.stream_home
    assert restored.stage.lineage == restored.before
    with pytest.raises(OperationPending):
        require_no_operation(home)
    asked = SavepointRequest(home.savepoints, "tests", "between")
    with pytest.raises(OperationPending):  # the tables may be without rows of its batch
        make_native_savepoint(home, read_committed_batch(home), asked, lambda _: None)
    assert not judge_stream(home, 1, epoch_ms(), native=True).due
    record = restored.restore()
    assert [each.id for each in read_operations(home)] == [record.id]
    require_no_operation(home)
    drain(restored.spark, restored.stage)
    restored.assert_exact()


def test_a_savepoint_that_a_restore_overtook_is_not_completed(restored: Restored) -> None:
    """Its table versions are those with its batch, and no user restores to a state that was left meanwhile."""
    home = restored.stage.stream_home
    asked = SavepointRequest(home.savepoints, "tests", "overtaken")

    def restore_meanwhile(step: str) -> None:
        if step == "state":
            restored.restore()

    with pytest.raises(StreamChanged) as caught:
        make_savepoint(restored.spark, home, read_committed_batch(home), asked, restore_meanwhile)
    assert (caught.value.was, caught.value.now) == (restored.before, restored.stage.lineage)
    with pytest.raises(UnusableSavepoint):
        complete_savepoint(home.savepoints, "overtaken", epoch_ms())
    drain(restored.spark, restored.stage)
    restored.assert_exact()


@pytest.mark.long
def test_a_savepoint_of_a_lineage_that_the_home_does_not_know_keeps_its_rows(
    restored: Restored, tmp_path: Path
) -> None:
    """The records are put back from a backup of before the lineage began. Then its path is only in the savepoint."""
    home, spark = restored.stage.stream_home, restored.spark
    backup = tmp_path / "backup"
    shutil.copytree(opened(home.control), backup)
    second = restored.restore().lineage_to
    assert second
    catch_up(spark, restored.stage)
    then = restored.batches(restored.files)
    made = make_savepoint(
        spark, home, read_committed_batch(home), SavepointRequest(home.savepoints, "tests", "of_second"), lambda _: None
    )
    assert [segment.lineage for segment in made.path] == [restored.before, second]
    shutil.rmtree(opened(home.control))
    shutil.copytree(backup, opened(home.control))
    restored.savepoint, restored.manifest = complete_savepoint(home.savepoints, "of_second", epoch_ms())
    with pytest.raises(UnusableSavepoint):
        saved_path(replace(made, path=()), origins_of(home))
    third = restored.restore("20261123T090000-abc123").lineage_to
    assert third
    assert path_to(third, None, origins_of(home))[:-1] == made.path
    drain(spark, restored.stage)
    files = restored.files
    since = batches_of(CheckpointLog(restored.stage.checkpoint).committed()[1:], files)
    assert_landed(restored.stage, [*then, *since], [row for name in sorted(files) for row in files[name]])


@pytest.mark.long
def test_killed_between_two_tables_the_second_run_takes_the_rest(
    restored: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def die_after_one(spark: SparkSession, table: StreamedTable, *rest: Any) -> None:
        if taken:
            raise Killed
        taken.append(table.name)
        delete_rows(spark, table, *rest)

    monkeypatch.setattr("sessionizer.spark.state.restores.table_rows.delete_rows", die_after_one)
    with pytest.raises(Killed):
        restored.restore()
    monkeypatch.undo()
    assert taken == ["sessions"]
    record = restored.restore()
    assert record.counts.startswith("sessions ")
    assert not record.counts.startswith("sessions 0")  # what the first run counted
    drain(restored.spark, restored.stage)
    restored.assert_exact()


@pytest.mark.long
def test_once_a_row_has_left_nothing_is_abandoned(restored: Restored, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        message = "source away"
        raise OSError(message)

    kill_after(OperationStage.TAKEN_BACK, restored, monkeypatch)
    monkeypatch.setattr(runner, "examine", fail)
    with pytest.raises(OSError, match="source away"):
        restored.restore()
    monkeypatch.undo()
    home = restored.stage.stream_home
    assert read_desired(home).state is DesiredState.MAINTENANCE
    with pytest.raises(OperationPending):
        require_no_operation(home)
    assert restored.restore().outcome is Ending.DONE
    drain(restored.spark, restored.stage)
    restored.assert_exact()


@pytest.mark.long
@pytest.mark.parametrize(
    ("fails", "endings"),
    [("examine", []), ("delete_open_sessions", [Ending.ABANDONED]), ("change_rows", [None])],
)
def test_what_fails_before_the_stop_is_no_operation_and_what_fails_after_it_is_one(
    restored: Restored, monkeypatch: pytest.MonkeyPatch, fails: str, endings: list[Ending | None]
) -> None:
    def fail(*_: object) -> None:
        message = "source away"
        raise OSError(message)

    tables = landed(restored.stage)
    monkeypatch.setattr(runner, fails, fail)
    with pytest.raises(OSError, match="source away"):
        restored.restore()
    home = restored.stage.stream_home
    assert list_names(home.lineages) == [restored.before], "what was begun is gone"
    assert [each.outcome for each in read_operations(home)] == endings
    wanted = DesiredState.MAINTENANCE if endings == [None] else DesiredState.RUNNING
    assert read_desired(home).state is wanted
    assert restored.stage.lineage == restored.before
    assert landed(restored.stage) == tables
