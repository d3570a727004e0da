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
    read_operations,
    require_no_operation,
)
from sessionizer.control.records.supervision_records import DesiredState, read_desired
from sessionizer.errors import OperationPending, StateBehindTables, StreamChanged, UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import files_below, list_names, remove_tree
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import GROUP_LOGS, StreamHome
from sessionizer.spark.ingest.punctuation import ANNOUNCED_FILE, AnnouncedTimeouts, change_timeouts
from sessionizer.spark.state.commands import runner
from sessionizer.spark.state.restores.table_rows import delete_rows
from sessionizer.spark.state.savepoints.saved_state import make_savepoint
from sessionizer.state.commands.return_plans import saved_path
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.lineages.origin import ORIGIN_FILE, origins_of, path_to, remove_abandoned
from sessionizer.state.restores.row_changes import StreamedTable
from sessionizer.state.savepoints.manifest import write_manifest
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest
from sessionizer.state.savepoints.schedule import judge_stream
from sessionizer.state.savepoints.verification import digest_files, require_undamaged
from support.expected.landed import landed
from support.places import known, opened
from support.processes.driver_process import run_to_end
from support.processes.in_process import catch_up, drain
from support.stores.control_fixtures import HDFS, HOME
from support.verbs.begun_restore import begun_restore, write_operation
from support.verbs.restored_stream import FILES, SAVED_AFTER, Restored, save
from support.verbs.scripted_runner import Killed


@pytest.fixture
def restored(spark: SparkSession, tmp_path: Path) -> Restored:
    return Restored.set_up(spark, tmp_path)


@pytest.mark.long
def test_the_plan_says_what_leaves_and_what_comes_again_and_changes_nothing(restored: Restored) -> None:
    stage, tables, plan = restored.stage, landed(restored.stage), restored.plan()
    assert plan.leaves == restored.before
    assert plan.newest_batch >= FILES - 1
    assert plan.replay.items == FILES - SAVED_AFTER - 1
    assert not plan.replay.missing
    assert {table.table for table in plan.tables if table.rows} >= {"sessions", "quarantine"}
    (stage.feed / max(restored.files)).unlink()
    drop_files = restored.plan()
    assert drop_files.replay.missing
    assert drop_files.digest == plan.digest
    assert landed(stage) == tables
    assert stage.lineage == restored.before
    hurt = next(file for file in files_below(restored.savepoint.root) if file.name.endswith(".parquet"))
    content = bytearray(opened(hurt).read_bytes())
    content[len(content) // 2] ^= 1
    opened(hurt).write_bytes(bytes(content))
    with pytest.raises(UnusableSavepoint, match="is changed"):
        restored.plan()


@pytest.mark.long
def test_a_home_from_before_a_restore_is_refused_and_another_restore_brings_the_deleted_rows_back(
    restored: Restored, tmp_path: Path
) -> None:
    """The restore deleted rows of the lineage that goes on, and its own lineage wrote none."""
    spark, home, tables = restored.spark, restored.stage.stream_home, "tables"
    save(spark, restored.stage, "newest")
    before = landed(restored.stage)
    shutil.copytree(opened(home.root), tmp_path / "older", ignore=shutil.ignore_patterns(tables))
    forgotten = restored.restore(mint_id(epoch_ms()))
    assert landed(restored.stage) != before
    for part in opened(home.root).iterdir():
        if part.name != tables:
            shutil.rmtree(part)
    shutil.copytree(tmp_path / "older", opened(home.root), dirs_exist_ok=True)
    assert restored.stage.lineage == restored.before
    said = run_to_end(restored.stage, "old-home", "caught-up", code=StateBehindTables.exit_code)
    assert forgotten.id in said
    restored.choose("newest")
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


@pytest.mark.parametrize("between", [pytest.param(False, marks=pytest.mark.long), True])
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
@pytest.mark.parametrize(
    ("data", "kind"), [(HOME, "whole"), (HDFS, "whole"), (HOME, "native"), (HOME, "without logs")], indirect=["data"]
)
def test_the_stream_goes_on_from_there_and_ends_as_it_must(
    spark: SparkSession, tmp_path: Path, data: str | None, kind: str
) -> None:
    """A savepoint without logs, as earlier releases made them, is restored by its rows, a native one by its files."""
    restored = Restored.set_up(spark, tmp_path, data, native=kind == "native")
    home = restored.stage.stream_home
    if kind == "without logs":
        remove_tree(restored.savepoint.part(GROUP_LOGS))
        write_manifest(
            restored.savepoint, replace(restored.manifest, files=tuple(digest_files(restored.savepoint).files))
        )
        restored.choose("middle")
    plan = restored.plan()
    assert [plan.sessions is None, "not counted" in "\n".join(plan.lines())] == [kind == "native"] * 2
    assert plan.replay.items == FILES - SAVED_AFTER - 1
    record, lineage = restored.restore(), restored.stage.lineage
    assert lineage
    assert lineage == record.lineage_to != restored.before
    assert not opened(home.unpacked / "middle").exists()
    require_undamaged(restored.savepoint, restored.manifest)
    origin = known(ORIGIN_FILE.of(home, lineage).require())
    assert (origin.verb, origin.parent, origin.savepoint) == ("restore", restored.before, "middle")
    assert (record.outcome, read_desired(home).state) == (Ending.DONE, DesiredState.RUNNING)
    assert record.days
    assert not any(table.rows for table in restored.plan().tables)
    drain(restored.spark, restored.stage)
    restored.assert_exact()
    if kind == "native":
        versions = {**restored.manifest.fingerprint.versions, "spark": "3.5.9"}
        fingerprint = replace(restored.manifest.fingerprint, versions=versions)
        restored.manifest = replace(restored.manifest, fingerprint=fingerprint)
        with pytest.raises(UnusableSavepoint, match=r"of Spark 3\.5\.9"):
            restored.plan()


@pytest.mark.long
def test_what_clients_were_given_is_known_to_have_been_passed_on(restored: Restored) -> None:
    home = restored.stage.stream_home
    change_timeouts(home.punctuations(restored.before), {"web": 60_000, "shop": 5_000})
    catch_up(restored.spark, restored.stage)
    restored.save("with_timeouts")
    lineage = str(restored.restore().lineage_to)
    # a client that left the table of timeouts meanwhile would otherwise keep its old one
    assert ANNOUNCED_FILE.of(home, lineage).require() == AnnouncedTimeouts({"web": 60_000, "shop": 5_000})


@pytest.mark.long
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
        restored.choose("overtaken")
    drain(restored.spark, restored.stage)
    restored.assert_exact()


@pytest.mark.long
def test_a_savepoint_of_a_lineage_that_the_home_does_not_know_keeps_its_rows(
    restored: Restored, tmp_path: Path
) -> None:
    """The records are put back from a backup of before the lineage began. Then its path is only in the savepoint."""
    home, spark, backup = restored.stage.stream_home, restored.spark, tmp_path / "backup"
    shutil.copytree(opened(home.control), backup)
    second = restored.restore().lineage_to
    catch_up(spark, restored.stage)
    restored.save("of_second")
    made = restored.manifest
    assert [segment.lineage for segment in made.path] == [restored.before, second]
    shutil.rmtree(opened(home.control))
    shutil.copytree(backup, opened(home.control))
    with pytest.raises(UnusableSavepoint):
        saved_path(replace(made, path=()), origins_of(home))
    third = str(restored.restore("20261123T090000-abc123").lineage_to)
    assert path_to(third, None, origins_of(home))[:-1] == made.path
    drain(spark, restored.stage)
    restored.assert_exact()


def fail(*_: object) -> None:
    raise OSError("source away")


@pytest.mark.long
def test_killed_between_two_tables_nothing_is_abandoned_and_the_second_run_deletes_the_rest(
    restored: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`test_killed_verbs.py` has the other kills."""
    taken, home = list[str](), restored.stage.stream_home

    def die_after_one(spark: SparkSession, table: StreamedTable, *rest: Any) -> None:
        if taken:
            raise Killed
        taken.append(table.name)
        delete_rows(spark, table, *rest)

    with monkeypatch.context() as patched:
        patched.setattr("sessionizer.spark.state.restores.table_rows.delete_rows", die_after_one)
        with pytest.raises(Killed):
            restored.restore()
    assert (taken, restored.stage.lineage) == (["sessions"], restored.before)
    with pytest.raises(OperationPending):  # the tables may be without rows of its batch
        save(restored.spark, restored.stage, "between", native=True)
    assert not judge_stream(home, 1, epoch_ms(), native=True).due
    with monkeypatch.context() as patched:
        patched.setattr(runner, "examine", fail)
        with pytest.raises(OSError, match="source away"):
            restored.restore()
    assert read_desired(home).state is DesiredState.MAINTENANCE
    with pytest.raises(OperationPending):
        require_no_operation(home)
    record = restored.restore()
    assert record.outcome is Ending.DONE
    assert record.counts.startswith("sessions ")
    assert not record.counts.startswith("sessions 0")  # what the first run counted
    assert [each.id for each in read_operations(home)] == [record.id]
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
