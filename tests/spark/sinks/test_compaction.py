"""Small files become large ones and old files go, and no row, no transaction and no savepoint's version with them."""

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType

from sessionizer.errors import LeaseLost
from sessionizer.home import names
from sessionizer.spark.internals.delta_append import Transaction, write_once
from sessionizer.spark.internals.delta_log import last_versions
from sessionizer.spark.sinks.compaction import TablePlan, compact_table, plan_tables
from sessionizer.spark.sinks.table_shapes import quarantine_shape
from sessionizer.spark.sinks.tables import ensure_table
from sessionizer.spark.state.restores.table_rows import count_changes, delete_rows
from sessionizer.state.compaction.plan import OwnedTable, Retention
from sessionizer.state.lineages.origin import BatchRange, Segment
from sessionizer.state.lineages.table_changes import list_changes_after
from sessionizer.state.restores.row_changes import RowChanges, StreamedTable
from support.places import known
from support.verbs.begun_restore import begun_restore

OWNER = "clicks@0123456789abcdef"
BATCHES = 5
WEEK_AND_MORE = Retention(169, "compaction.keep", is_short=False)
NONE_KEPT = Retention(0, "the test", is_short=True)
BACK = RowChanges((Segment("first", 2),))
FORWARD = RowChanges((Segment("first", 4),), missing=(BatchRange("first", 2, 4),))
DAY_S = 86_400


@pytest.fixture(scope="module")
def kept_table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of the stream, with a row and a file for each batch."""
    folder = tmp_path_factory.mktemp("compaction") / names.QUARANTINE
    ensure_table(spark, quarantine_shape(), str(folder), OWNER)
    for batch_id in range(BATCHES):
        append(spark, str(folder), batch_id)
    return folder


@pytest.fixture
def table(kept_table: Path, tmp_path: Path) -> StreamedTable:
    """A copy of that table for one test. The paths in its log are relative."""
    return StreamedTable(names.QUARANTINE, str(shutil.copytree(kept_table, tmp_path / names.QUARANTINE)), BATCHES)


def append(spark: SparkSession, location: str, batch_id: int, *, replaces: bool = False) -> int | None:
    row = spark.range(1).selectExpr(
        "'malformed' reason", "current_date() date", "'first' lineage", f"{batch_id}L batch_id"
    )
    transaction = Transaction("first", batch_id)
    return write_once(row.coalesce(1), location, transaction, lambda: None, replaces=replaces)


def planned(spark: SparkSession, table: StreamedTable, retention: Retention = WEEK_AND_MORE) -> TablePlan:
    (plan,) = plan_tables(spark, [OwnedTable(table.name, table.location, OWNER)], retention)
    return plan


def batches_in(spark: SparkSession, table: StreamedTable) -> list[int]:
    return sorted(row.batch_id for row in spark.read.format("delta").load(table.location).collect())


def test_files_are_merged_once_and_the_batches_stay_known(spark: SparkSession, table: StreamedTable) -> None:
    plan = planned(spark, table)
    assert plan.found is not None
    assert (plan.found.files, plan.found.old_files, plan.skipped, plan.warning) == (BATCHES, 0, None, None)
    done = compact_table(spark, plan, WEEK_AND_MORE)
    assert (done.files_before, done.files, done.deleted, done.overtaken) == (BATCHES, 1, 0, False)
    assert batches_in(spark, table) == list(range(BATCHES))
    assert last_versions(spark, table.location) == {"first": BATCHES - 1}
    assert append(spark, table.location, BATCHES - 1) is None
    version = DeltaTable.forPath(spark, table.location).history(1).select("version").first()
    compact_table(spark, planned(spark, table), WEEK_AND_MORE)
    assert DeltaTable.forPath(spark, table.location).history(1).select("version").first() == version
    assert append(spark, table.location, BATCHES) is not None


@pytest.mark.long
def test_old_files_go_after_their_time_alone(spark: SparkSession, table: StreamedTable, tmp_path: Path) -> None:
    def files() -> int:
        return len(list((tmp_path / names.QUARANTINE).glob("*.parquet")))

    compact_table(spark, planned(spark, table), WEEK_AND_MORE)
    assert files() == BATCHES + 1
    plan = planned(spark, table, NONE_KEPT)
    assert known(plan.found).old_files == BATCHES
    assert compact_table(spark, plan, NONE_KEPT).deleted == BATCHES
    assert files() == 1
    assert batches_in(spark, table) == list(range(BATCHES))


def test_rows_leave_after_the_day_that_the_spec_says(spark: SparkSession, table: StreamedTable) -> None:
    today = datetime.now(UTC).date()
    DeltaTable.forPath(spark, table.location).update("batch_id < 2", {"date": f"date'{today}' - 30"})
    found = {}
    for day in (today - timedelta(days=31), today - timedelta(days=29)):
        (plan,) = plan_tables(spark, [OwnedTable(table.name, table.location, OWNER, day)], WEEK_AND_MORE)
        version = int(DeltaTable.forPath(spark, table.location).history(1).collect()[0].version)
        compact_table(spark, plan, WEEK_AND_MORE)
        found[plan.expired] = batches_in(spark, table)
    assert found == {0: [0, 1, 2, 3, 4], 2: [2, 3, 4]}
    assert plan_tables(spark, [OwnedTable(table.name, table.location, OWNER, day)], WEEK_AND_MORE)[0].expired == 0
    assert list_changes_after(Path(table.location), table.name, version, {"first"})[1] == [], "it is a change of ours"


@pytest.mark.long
def test_a_table_that_batches_replace_only_loses_its_old_files(spark: SparkSession, table: StreamedTable) -> None:
    snapshots = replace(table, name=names.OPEN_SESSIONS)
    plan = planned(spark, snapshots, NONE_KEPT)
    assert plan.found is not None
    assert (plan.found.files, plan.found.old_files, plan.merges) == (BATCHES, 0, False)
    assert append(spark, table.location, BATCHES, replaces=True) is not None
    done = compact_table(spark, planned(spark, snapshots, NONE_KEPT), NONE_KEPT)
    assert (done.files_before, done.files, done.deleted) == (1, 1, BATCHES)
    assert append(spark, table.location, BATCHES, replaces=True) is None
    assert batches_in(spark, table) == [BATCHES]


def test_the_version_of_an_old_savepoint_is_read_after_a_compaction(
    spark: SparkSession, table: StreamedTable, tmp_path: Path
) -> None:
    """Delta refuses a version that is older than 7 days by default, and its VACUUM takes no longer time than that."""
    log = tmp_path / names.QUARANTINE / "_delta_log"
    long_ago = time.time() - 12 * DAY_S
    for version in range(BATCHES + 1):
        os.utime(log / f"{version:020d}.json", (long_ago + version, long_ago + version))
    delete_rows(spark, table, BACK, begun_restore("20261122T080000-abc123"), lambda: None)
    compact_table(spark, planned(spark, table), WEEK_AND_MORE)
    (counted,) = count_changes(spark, "clicks", [table], FORWARD)
    assert counted.rows_back == 2


@pytest.fixture
def delete_overtaken(
    spark: SparkSession, table: StreamedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], None]], None]:
    """Deletes the later rows, by a ``permit``. A compaction replaces the files between its reading and its commit."""
    begun, merged = tmp_path / "begun", tmp_path / "merged"

    def wait(batch_id: int) -> bool:
        begun.touch()
        while batch_id == BATCHES - 1 and not merged.exists():  # one task waits, and leaves the other core
            time.sleep(0.02)
        return True

    def delete(permit: Callable[[], None]) -> None:
        spark.udf.register("wait_until_merged", wait, BooleanType())
        monkeypatch.setattr(RowChanges, "deleted_rows", "batch_id > 2 and wait_until_merged(batch_id)")
        plan = planned(spark, table)
        with ThreadPoolExecutor() as pool:
            deletion = pool.submit(delete_rows, spark, table, BACK, begun_restore("20261122T080000-abc123"), permit)
            while not (begun.exists() or deletion.done()):
                time.sleep(0.02)
            assert compact_table(spark, plan, WEEK_AND_MORE).files == 1
            merged.touch()
            deletion.result()

    return delete


def test_a_command_that_a_compaction_overtakes_deletes_its_rows_all_the_same(
    spark: SparkSession, table: StreamedTable, delete_overtaken: Callable[[Callable[[], None]], None]
) -> None:
    delete_overtaken(lambda: None)
    assert batches_in(spark, table) == [0, 1, 2]
    history = DeltaTable.forPath(spark, table.location).history(2).select("operation").collect()
    assert [row.operation for row in history] == ["DELETE", "OPTIMIZE"]


@pytest.mark.long
def test_a_command_that_lost_its_lease_meanwhile_does_not_try_again(
    spark: SparkSession, table: StreamedTable, delete_overtaken: Callable[[Callable[[], None]], None]
) -> None:
    """Its successor may have brought back the rows that it was to delete."""

    def permit() -> None:
        if tries:
            raise LeaseLost("clicks", 1, 2)
        tries.append("first")

    tries: list[str] = []
    with pytest.raises(LeaseLost):
        delete_overtaken(permit)
    assert batches_in(spark, table) == list(range(BATCHES))


def test_a_table_of_another_stream_is_left_alone(spark: SparkSession, table: StreamedTable) -> None:
    (plan,) = plan_tables(spark, [OwnedTable(table.name, table.location, "visits@0123456789abcdef")], WEEK_AND_MORE)
    assert OWNER in known(plan.skipped)
    nowhere = replace(table, location=f"{table.location}_of_nobody")
    assert plan_tables(spark, [OwnedTable(nowhere.name, nowhere.location, OWNER)], WEEK_AND_MORE) == []
