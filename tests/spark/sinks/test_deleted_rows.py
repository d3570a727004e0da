"""Rows leave a table and come back into it, in one commit each. Earlier rows stay."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from sessionizer.control.operation import Operation
from sessionizer.errors import DataAway, InvalidSpec, RowsGone, TableOwned
from sessionizer.home.data_files import remove_tree
from sessionizer.spark.internals.delta_append import Transaction, write_once
from sessionizer.spark.internals.delta_log import last_versions, table_property
from sessionizer.spark.session import temporary_settings
from sessionizer.spark.sinks.table_shapes import TableShape
from sessionizer.spark.sinks.tables import OWNER, claim_tables, ensure_table, require_ours, require_tables_fit
from sessionizer.spark.state.restores import table_rows
from sessionizer.spark.state.restores.table_rows import change_rows, delete_rows
from sessionizer.state.lineages.origin import BatchRange, Segment
from sessionizer.state.restores.row_changes import RowChanges, RowsOfTable, StreamedTable, count_changes_in_files
from support.streams.stage import Stage, clicks_spec
from support.verbs.begun_restore import begun_restore, write_operation

ROWS = [
    ("before", 3, "2026-11-20"),
    ("back_to", 6, "2026-11-21"),
    ("back_to", 7, "2026-11-21"),
    ("back_to", 8, "2026-11-22"),
    ("back_to", 9, "2026-11-22"),
    ("after", 0, "2026-11-23"),
]
BACK = RowChanges((Segment("before", 3), Segment("back_to", 7)), ("after",))


KEPT = [("back_to", 6), ("back_to", 7), ("before", 3)]
EARLIER = begun_restore("20261122T080000-abc123")
FORWARD = RowChanges(
    (Segment("before", 3), Segment("back_to", 9)),
    ("after",),
    (BatchRange("back_to", 7, 9),),
    operations={EARLIER.id, "20261123T080000-abc123"},
)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> StreamedTable:
    location = str(tmp_path / "sessions")
    dated(spark, *ROWS).coalesce(1).write.format("delta").save(location)
    return StreamedTable("sessions", location, 0)


def dated(spark: SparkSession, *rows: tuple[str, int, str]) -> DataFrame:
    found = spark.createDataFrame(rows, "lineage string, batch_id bigint, date string")
    return found.selectExpr("lineage", "batch_id", "cast(date as date) as date")


def newest(spark: SparkSession, table: StreamedTable) -> tuple[Any, ...]:
    """Version, operation and note of the newest commit."""
    (found,) = (
        DeltaTable.forPath(spark, table.location).history(1).select("version", "operation", "userMetadata").collect()
    )
    return tuple(found)


@pytest.fixture
def operation(tmp_path: Path) -> Operation:
    home = Stage.set_up(tmp_path / "stage", clicks_spec()).stream_home
    home.prepare()
    record = begun_restore("20261123T080000-abc123")
    write_operation(home, record)
    return Operation(home, record, lambda: None)


def count_changes(
    spark: SparkSession, stream: str, tables: Sequence[StreamedTable], changes: RowChanges
) -> list[RowsOfTable]:
    """Count in both ways, which agree: by Spark, and by Delta's log and files as a plan does."""
    try:
        counted = table_rows.count_changes(spark, stream, tables, changes)
    except (RowsGone, DataAway) as error:
        with pytest.raises(type(error)):
            count_changes_in_files(stream, tables, changes)
        raise
    assert count_changes_in_files(stream, tables, changes) == counted
    return counted


def rows_in(spark: SparkSession, table: StreamedTable) -> list[tuple[str, int]]:
    return sorted((row.lineage, row.batch_id) for row in spark.read.format("delta").load(table.location).collect())


def change(spark: SparkSession, operation: Operation, table: StreamedTable, changes: RowChanges) -> list[str]:
    said: list[str] = []
    change_rows(spark, operation, [table], changes, lambda: None, said.append)
    return said


def test_they_are_counted_by_day_before_anything_is_done(
    spark: SparkSession, table: StreamedTable, tmp_path: Path
) -> None:
    nowhere = StreamedTable("late_events", str(tmp_path / "late_events"))
    assert count_changes(spark, "clicks", [table, nowhere], BACK) == [
        RowsOfTable("sessions", table.location, {"2026-11-22": 2, "2026-11-23": 1}),
        RowsOfTable("late_events", nowhere.location, {}),
    ]
    assert len(rows_in(spark, table)) == len(ROWS)
    DeltaTable.forPath(spark, table.location).delete("batch_id = 9")
    (counted,) = count_changes(spark, "clicks", [table], FORWARD)
    assert counted.back == {"2026-11-22": 1}, "of a batch that is there nothing comes back"


def test_they_leave_in_one_commit_that_says_why(
    spark: SparkSession, table: StreamedTable, operation: Operation
) -> None:
    assert len(change(spark, operation, table, BACK)) == 1
    assert rows_in(spark, table) == KEPT
    assert newest(spark, table) == (1, "DELETE", "restore 20261123T080000-abc123")


def test_a_second_time_nothing_is_written(spark: SparkSession, table: StreamedTable, tmp_path: Path) -> None:
    delete_rows(spark, table, BACK, EARLIER, lambda: None)
    files = set((tmp_path / "sessions").rglob("*"))
    delete_rows(spark, table, BACK, replace(EARLIER, id="20261122T090000-abc123"), lambda: None)
    delete_rows(spark, replace(table, location=str(tmp_path / "nowhere")), BACK, EARLIER, lambda: None)
    assert {file for file in (tmp_path / "sessions").rglob("*") if file.is_file()} <= files
    assert rows_in(spark, table) == KEPT


def test_rows_that_another_writer_wrote_anew_leave_by_the_same_command(
    spark: SparkSession, table: StreamedTable
) -> None:
    delete_rows(spark, table, BACK, EARLIER, lambda: None)
    before = spark.read.format("delta").option("versionAsOf", 0).load(table.location)
    before.where("lineage = 'after'").write.format("delta").mode("append").save(table.location)
    delete_rows(spark, table, BACK, EARLIER, lambda: None)
    assert rows_in(spark, table) == KEPT
    assert last_versions(spark, table.location) == {f"deletion-{EARLIER.id}": 1}


def test_all_rows_of_the_path_come_back_that_an_operation_deleted_of_which_no_record_is_left(
    spark: SparkSession, table: StreamedTable, operation: Operation
) -> None:
    delete_rows(spark, table, BACK, EARLIER, lambda: None)
    forgotten = replace(FORWARD, missing=(), since="20261121T080000-abc123", operations=())
    (counted,) = count_changes(spark, "clicks", [table], forgotten)
    assert (counted.rows, counted.back) == (0, {"2026-11-22": 2})
    (counted,) = count_changes(spark, "clicks", [table], replace(forgotten, since="20261122T080001-abc123"))
    assert (counted.rows, counted.back) == (0, {})
    assert len(change(spark, operation, table, forgotten)) == 1
    assert rows_in(spark, table) == sorted([*KEPT, ("back_to", 8), ("back_to", 9)])


def test_rows_that_an_earlier_command_deleted_come_back_once(
    spark: SparkSession, table: StreamedTable, operation: Operation
) -> None:
    delete_rows(spark, table, BACK, EARLIER, lambda: None)
    (counted,) = count_changes(spark, "clicks", [table], FORWARD)
    assert (counted.rows, counted.back) == (0, {"2026-11-22": 2})
    assert len(change(spark, operation, table, FORWARD)) == 1
    assert rows_in(spark, table) == sorted([*KEPT, ("back_to", 8), ("back_to", 9)])
    assert newest(spark, table)[-1] == "restore 20261123T080000-abc123"
    assert change(spark, operation, table, FORWARD) == []
    assert operation.record.counts == "sessions 0, sessions +2"
    spark.read.format("delta").load(table.location).limit(1).write.format("delta").mode("append").save(table.location)
    assert newest(spark, table)[-1] is None, "what is written afterwards has no such note"


def test_a_process_that_was_overtaken_brings_nothing_back_twice(
    spark: SparkSession, table: StreamedTable, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_rows(spark, table, BACK, EARLIER, lambda: None)
    counted_before = table_rows._coming_back(spark, table, FORWARD).localCheckpoint()
    change(spark, operation, table, FORWARD)
    monkeypatch.setattr(table_rows, "_coming_back", lambda *_: counted_before)
    table_rows._bring_back(spark, table, FORWARD, operation.record, lambda: None)
    assert len(rows_in(spark, table)) == 5


def test_a_version_that_was_vacuumed_or_left_the_log_is_refused_by_name(
    spark: SparkSession, table: StreamedTable
) -> None:
    delete_rows(spark, table, BACK, EARLIER, lambda: None)
    with temporary_settings(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        DeltaTable.forPath(spark, table.location).vacuum(0)
    for version in (0, 7):
        with pytest.raises(RowsGone) as refused:
            count_changes(spark, "clicks", [replace(table, version=version)], FORWARD)
        assert (refused.value.location, refused.value.version) == (table.location, version)


def test_a_table_that_is_gone_is_refused_by_name(spark: SparkSession, table: StreamedTable, tmp_path: Path) -> None:
    remove_tree(tmp_path / "sessions")
    with pytest.raises(RowsGone):
        count_changes(spark, "clicks", [table], FORWARD)
    assert count_changes(spark, "clicks", [table], BACK) == [RowsOfTable("sessions", table.location, {})]
    with pytest.raises(DataAway) as away:
        count_changes(spark, "clicks", [replace(table, has_rows=True)], BACK)
    assert away.value.location == table.location


def test_rows_of_a_lineage_that_the_home_does_not_know_leave(spark: SparkSession, table: StreamedTable) -> None:
    writer = dated(spark, ("unknown", 0, "2026-11-24")).write.format("delta").mode("append")
    writer.option("txnAppId", "unknown").option("txnVersion", 0).save(table.location)
    (counted,) = count_changes(spark, "clicks", [table], BACK)
    assert counted.by_day == {"2026-11-22": 2, "2026-11-23": 1, "2026-11-24": 1}
    delete_rows(spark, table, BACK, EARLIER, lambda: None)
    assert rows_in(spark, table) == KEPT


OURS, THEIRS = "clicks@0123456789abcdef", "clicks@fedcba9876543210"
COLUMNS = StructType([StructField("date", LongType())])


@pytest.fixture
def old_table(spark: SparkSession, tmp_path: Path) -> str:
    """One that was made before tables had owners."""
    ensure_table(spark, TableShape("sessions", "", COLUMNS), str(tmp_path / "its folder"))
    return str(tmp_path / "its folder")


def write(spark: SparkSession, table: str, lineage: str) -> None:
    write_once(spark.createDataFrame([(1,)], COLUMNS), table, Transaction(lineage, 0), lambda: None)


def test_a_table_is_made_with_its_owner(spark: SparkSession, tmp_path: Path) -> None:
    location = str(tmp_path)
    claim_tables(spark, {"sessions": location}, OURS, ())
    ensure_table(spark, TableShape("sessions", "", COLUMNS), location, OURS)
    require_ours(spark, {"sessions": location}, OURS)
    claim_tables(spark, {"sessions": location}, OURS, ())
    with pytest.raises(TableOwned, match=f"{location} .* {OURS}, not to {THEIRS}"):
        claim_tables(spark, {"sessions": location}, THEIRS, ())


def test_one_that_nobody_or_we_alone_wrote_is_claimed_once(spark: SparkSession, old_table: str) -> None:
    write(spark, old_table, "ours")
    write(spark, old_table, "operation-20261128T234314-7a8134")  # a restore that brought rows back
    for _ in range(2):
        claim_tables(spark, {"sessions": old_table}, OURS, {"ours", "older"})
    assert table_property(spark, old_table, OWNER) == OURS
    assert spark.read.format("delta").load(old_table).count() == 2
    assert spark.sql(f"DESCRIBE HISTORY delta.`{old_table}`").count() == 4


def test_one_that_a_stranger_wrote_is_refused_and_no_other_claimed(
    spark: SparkSession, old_table: str, tmp_path: Path
) -> None:
    write(spark, old_table, "theirs")
    free = str(tmp_path / "free")
    ensure_table(spark, TableShape("quarantine", "", COLUMNS), free)
    with pytest.raises(TableOwned, match="of lineage theirs"):
        claim_tables(spark, {"quarantine": free, "sessions": old_table}, OURS, {"ours"})
    assert table_property(spark, free, OWNER) is None


EDITS = (
    ("tinyint", "smallint"), ("smallint", "int"), ("int", "bigint"), ("int", "double"), ("int", "decimal(20,0)"),
    ("bigint", "int"), ("bigint", "double"), ("bigint", "string"), ("float", "double"), ("double", "float"),
    ("decimal(10,2)", "decimal(12,2)"), ("decimal(10,2)", "decimal(12,4)"), ("decimal(10,2)", "decimal(8,2)"),
    ("string", "int"), ("boolean", "int"), ("date", "timestamp"), ("date", "timestamp_ntz"), ("timestamp", "string"),
    ("array<int>", "array<bigint>"), ("array<bigint>", "array<int>"), ("struct<a:int>", "struct<a:bigint>"),
    ("struct<a:int>", "struct<a:int,b:int>"), ("struct<a:int,b:int>", "struct<a:int>"),
    ("map<string,int>", "map<string,bigint>"), ("binary", "string"), ("int", "int"),
)  # fmt: skip
"""The type that the table has, and the one that the spec gives now."""


def shape(*columns: str) -> TableShape:
    fields = StructType.fromDDL(", ".join(("date date", *columns)))
    assert isinstance(fields, StructType)
    return TableShape("visits", "Visits.", fields)


@pytest.mark.parametrize("widening", ["false", pytest.param("true", marks=pytest.mark.long)])
def test_the_plan_refuses_what_a_run_refuses_and_nothing_else(
    spark: SparkSession, tmp_path: Path, widening: str
) -> None:
    location = str(tmp_path / "visits")
    ensure_table(spark, shape(*(f"c{number} {before}" for number, (before, _) in enumerate(EDITS))), location)
    spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('delta.enableTypeWidening' = '{widening}')")

    def commits() -> int:
        return len(list((tmp_path / "visits" / "_delta_log").glob("*.json")))

    for number, (before, now) in enumerate(EDITS):
        edited = shape(f"c{number} {now}")
        planned = field_of_refusal(partial(require_tables_fit, spark, [edited], {"visits": location}))
        before_run = commits()
        done = field_of_refusal(partial(ensure_table, spark, edited, location))
        assert planned == done, (before, now, widening)
        if done is not None:
            assert commits() == before_run, "a refusal writes nothing"
        else:
            spark.createDataFrame([], edited.columns).write.format("delta").mode("append").save(location)
    kept = spark.read.format("delta").load(location).schema
    assert kept["c2"].dataType.simpleString() == ("int" if widening == "false" else "bigint")


def field_of_refusal(attempt: Callable[[], object]) -> str | None:
    try:
        attempt()
    except InvalidSpec as error:
        return error.field
    return None
