"""A batch's rows get into a Delta table once: written again, raced for, or without a permit they change nothing."""

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from delta.exceptions import ConcurrentTransactionException
from delta.tables import DeltaTable
from py4j.protocol import REFL_GET_UNKNOWN_SUB_COMMAND_NAME, REFLECTION_COMMAND_NAME
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sessionizer.errors import LeaseLost
from sessionizer.launch.driver_environment import PLAIN_SPARK
from sessionizer.spark.internals.delta_append import TableMissing, Transaction, write_once
from support.places import known
from support.processes.in_process import deliver_events

SEARCH = REFLECTION_COMMAND_NAME + REFL_GET_UNKNOWN_SUB_COMMAND_NAME


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Path:
    folder = tmp_path / "table"
    builder = DeltaTable.createIfNotExists(spark).location(str(folder))
    builder.addColumn("id", "bigint").addColumn("name", "string").clusterBy("id").execute()
    return folder


def permitted() -> None:
    """The lease is ours."""


def rows(spark: SparkSession, *ids: int) -> DataFrame:
    return spark.createDataFrame([(one, f"n{one}") for one in ids], "id bigint, name string")


def ids_in(spark: SparkSession, table: Path) -> list[int]:
    return sorted(row.id for row in spark.read.format("delta").load(str(table)).collect())


@pytest.mark.usefixtures("either_way")
def test_a_table_that_is_gone_is_not_made_anew(spark: SparkSession, table: Path) -> None:
    write_once(rows(spark, 1), str(table), Transaction("lineage", 6), permitted)
    shutil.rmtree(table)
    with pytest.raises(TableMissing):
        write_once(rows(spark, 2), str(table), Transaction("lineage", 7), permitted)
    assert not table.exists()


@pytest.mark.usefixtures("either_way")
def test_a_batch_lands_once_however_often_it_is_written(spark: SparkSession, table: Path) -> None:
    batch = Transaction("lineage", 7)
    assert write_once(rows(spark, 1, 2), str(table), batch, permitted) == 1
    files = set(table.rglob("*"))
    assert write_once(rows(spark, 1, 2), str(table), batch, permitted) is None
    assert write_once(rows(spark, 3), str(table), Transaction("lineage", 6), permitted) is None
    assert set(table.rglob("*")) == files  # not even a data file
    assert ids_in(spark, table) == [1, 2]


@pytest.mark.usefixtures("either_way")
def test_the_next_batch_and_the_first_of_another_lineage_land(spark: SparkSession, table: Path) -> None:
    for version, batch in enumerate([Transaction("a", 0), Transaction("a", 1), Transaction("b", 0)], start=1):
        assert write_once(rows(spark, version), str(table), batch, permitted) == version
    assert ids_in(spark, table) == [1, 2, 3]


@pytest.mark.usefixtures("tuned")
def test_a_batch_costs_the_job_that_writes_it_and_no_other(spark: SparkSession, table: Path) -> None:
    """What a table holds is read from the checksum: to rebuild it from the log would be a job of its own."""
    write_once(rows(spark, 1), str(table), Transaction("lineage", 0), permitted)
    context = spark.sparkContext
    context.setJobGroup("second batch", "appended")
    write_once(rows(spark, 2), str(table), Transaction("lineage", 1), permitted)
    context.setJobGroup("afterwards", "")
    deliver_events(spark)
    assert len(context.statusTracker().getJobIdsForGroup("second batch")) == 1


def test_what_a_table_holds_is_known_without_its_checksums(spark: SparkSession, table: Path) -> None:
    write_once(rows(spark, 1), str(table), Transaction("lineage", 0), permitted)
    for checksum in table.glob("_delta_log/*.crc"):
        checksum.unlink()
    jvm = known(spark.sparkContext._jvm)
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # as in a driver that starts anew
    assert write_once(rows(spark, 1), str(table), Transaction("lineage", 0), permitted) is None
    assert write_once(rows(spark, 2), str(table), Transaction("lineage", 1), permitted) == 2
    assert ids_in(spark, table) == [1, 2]


@pytest.mark.usefixtures("either_way")
def test_what_dataframe_writer_noted_counts(spark: SparkSession, table: Path) -> None:
    writer = rows(spark, 1).write.format("delta").mode("append")
    writer.option("txnAppId", "lineage").option("txnVersion", 4).save(str(table))
    assert write_once(rows(spark, 1), str(table), Transaction("lineage", 4), permitted) is None


@pytest.mark.usefixtures("either_way")
def test_of_two_that_write_one_batch_at_the_same_time_one_loses(
    spark: SparkSession, table: Path, tmp_path: Path
) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun.touch()
        deadline = time.monotonic() + 240
        while not go_on.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield from batches

    batch, slow_rows = Transaction("lineage", 0), rows(spark, 1).coalesce(1)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(write_once, slow_rows.mapInArrow(slow, slow_rows.schema), str(table), batch, permitted)
        while not begun.exists():
            assert not first.done()
            time.sleep(0.05)
        assert write_once(rows(spark, 2), str(table), batch, permitted) == 1
        go_on.touch()
        with pytest.raises(ConcurrentTransactionException):
            first.result(240)
    assert ids_in(spark, table) == [2]


@pytest.mark.parametrize(("plain", "question"), [("0", 1), ("0", 2), ("1", 1)])
def test_without_a_permit_nothing_becomes_part_of_the_table(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch, plain: str, question: int
) -> None:
    """A plain Spark asks before it writes anything."""
    monkeypatch.setenv(PLAIN_SPARK, plain)
    asked, files = list[bool](), set(table.rglob("*"))

    def lost_by_then() -> None:
        asked.append(True)
        if len(asked) == question:
            raise LeaseLost("clicks", token=1, newest=2)

    with pytest.raises(LeaseLost):
        write_once(rows(spark, 1), str(table), Transaction("lineage", 0), lost_by_then)
    assert ids_in(spark, table) == []
    assert plain == "0" or set(table.rglob("*")) == files
    write_once(rows(spark, 1), str(table), Transaction("lineage", 0), permitted)
    assert ids_in(spark, table) == [1]


@pytest.mark.usefixtures("either_way")
def test_columns_that_the_table_lacks_are_refused_not_dropped(spark: SparkSession, table: Path) -> None:
    wider = rows(spark, 1).selectExpr("*", "'x' as unheard_of")
    with pytest.raises(AnalysisException, match="DELTA_METADATA_MISMATCH"):
        write_once(wider, str(table), Transaction("lineage", 0), permitted)
    assert ids_in(spark, table) == []


@pytest.mark.usefixtures("either_way")
def test_columns_are_matched_by_name_and_may_be_missing(spark: SparkSession, table: Path) -> None:
    write_once(rows(spark, 1).select("name", "id"), str(table), Transaction("lineage", 0), permitted)
    write_once(rows(spark, 2).select("id"), str(table), Transaction("lineage", 1), permitted)
    landed = spark.read.format("delta").load(str(table)).orderBy("id").collect()
    assert [(row.id, row.name) for row in landed] == [(1, "n1"), (2, None)]


@pytest.mark.usefixtures("tuned")
def test_the_history_says_which_batch_of_which_lineage_it_was(spark: SparkSession, table: Path) -> None:
    write_once(rows(spark, 1, 2), str(table), Transaction("lineage", 12), permitted)
    newest = DeltaTable.forPath(spark, str(table)).history(1).collect()[0]
    assert newest.operation == "STREAMING UPDATE"
    assert (newest.operationParameters["queryId"], newest.operationParameters["epochId"]) == ("lineage", "12")
    assert newest.operationMetrics["numOutputRows"] == "2"
    assert newest.isBlindAppend


@pytest.mark.usefixtures("tuned")
def test_a_commit_does_not_have_the_class_path_searched_for_packages(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_once(rows(spark, 1), str(table), Transaction("lineage", 1), permitted)
    more = rows(spark, 2)
    client = cast("Any", spark.sparkContext._jvm)._gateway_client
    searches, send = [], client.send_command

    def listen(command: str, *rest: Any, **named: Any) -> Any:
        if command.startswith(SEARCH):
            searches.append(command)
        return send(command, *rest, **named)

    monkeypatch.setattr(client, "send_command", listen)
    write_once(more, str(table), Transaction("lineage", 2), permitted)
    assert not searches
    assert cast("Any", spark.sparkContext._jvm).org is not None
    assert searches, "this is what such a search looks like"


def test_of_a_batch_that_either_way_has_written_the_other_writes_nothing(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, plain in enumerate("0101"):
        monkeypatch.setenv(PLAIN_SPARK, plain)
        assert write_once(rows(spark, number), str(table), Transaction("lineage", number), permitted) is not None
        monkeypatch.setenv(PLAIN_SPARK, "01"[plain == "0"])
        assert write_once(rows(spark, number), str(table), Transaction("lineage", number), permitted) is None
    assert ids_in(spark, table) == [0, 1, 2, 3]
