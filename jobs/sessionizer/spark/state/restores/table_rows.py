"""Rows of a stream's tables: their deletion and return by a command, and rows that no lineage of it wrote.

A change is one commit for a table: readers see all of the rows or none, and the table's history names the command. A
second call finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.checkpoint.state_files import Operator
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.counts import count_text
from sessionizer.errors import RowsGone, RowsLeft
from sessionizer.spark.failures.query_failure import retry_conflicts, store_failure
from sessionizer.spark.internals.delta_append import Transaction, write_once
from sessionizer.spark.internals.delta_log import last_versions
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.session import noting, temporary_settings
from sessionizer.spark.sinks.tables import table_exists
from sessionizer.spark.state.open_events import reading_state
from sessionizer.state.lineages.table_changes import OF_DELETION, OF_RETURN
from sessionizer.state.lineages.table_snapshot import SparkNeeded
from sessionizer.state.restores.row_changes import (
    RowChanges,
    RowsOfTable,
    StreamedTable,
    count_changes_in_files,
    require_none_missing,
)

if TYPE_CHECKING:
    from sessionizer.inspection.inspect import Inspection


_ANY_AGE: Final = {"spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false"}
"""By default Delta refuses a version older than 7 days, even if all its files are there. A savepoint may be older."""
_APPLICATION: Final = "spark.databricks.delta.write.txnAppId"
_NUMBER: Final = "spark.databricks.delta.write.txnVersion"
_WROTE: Final = ["lineage", "batch_id"]
_ONLY: Final = 0
"""Version of the one transaction in which an operation brings rows back into a table."""
_GONE: Final = (
    # the version left the log; a data file of it was vacuumed
    "Cannot time travel", "DELTA_VERSION_NOT_FOUND", "DELTA_LOG_FILE_NOT_FOUND", "DELTA_NO_RECREATABLE_HISTORY",
    "DELTA_FILE_NOT_FOUND", "FAILED_READ_FILE.FILE_NOT_EXIST", "FileNotFoundException", "DELTA_TRUNCATED_TRANSACTION",
    "DELTA_VERSION_INVALID", "DELTA_UNSUPPORTED_TIME_TRAVEL",
)  # fmt: skip


def count_changes(
    spark: SparkSession, stream: str, tables: Iterable[StreamedTable], changes: RowChanges
) -> list[RowsOfTable]:
    """Count the rows that leave and come back. Reads only. Raises RowsGone, DataAway, StoreUnreachable."""
    streamed = list(tables)
    of_stream = _changes_of(spark, streamed, changes)
    return [_count_table(spark, stream, table, of_stream) for table in streamed]


def count_from_files(
    spark: SparkSession, stream: str, tables: Sequence[StreamedTable], changes: RowChanges
) -> list[RowsOfTable]:
    """Count as ``count_changes`` does, from files if they tell, because that takes no job."""
    try:
        return count_changes_in_files(stream, tables, changes)
    except SparkNeeded:
        return count_changes(spark, stream, tables, changes)


def change_rows(
    spark: SparkSession,
    operation: Operation,
    tables: Iterable[StreamedTable],
    changes: RowChanges,
    permit: Callable[[], None],
    say: Callable[[str], None],
) -> None:
    """Make the changes in every table, as a step of ``operation``, which notes the number of rows and their days.

    Rows come back before others leave, so that a killed run finds all that it needs. A second run keeps the notes of
    the first. Raises RowsGone, and RowsLeft if another writer wrote deleted rows anew.
    """
    streamed, record = list(tables), operation.record
    changes = _changes_of(spark, streamed, changes)
    found = count_from_files(spark, record.stream, streamed, changes)
    counts = [f"{each.table} {each.rows}" for each in found]
    counts += [f"{each.table} +{each.rows_back}" for each in found if each.rows_back]
    days = sorted({day for each in found for day in (*each.by_day, *each.back)})
    operation.note_rows(", ".join(counts), " ".join(days))
    for table, rows in zip(streamed, found, strict=True):
        permit()
        if rows.rows_back:
            _bring_back(spark, table, changes, record, permit)
            say(f"{table.name}: {count_text(rows.rows_back, 'row')} brought back")
        if rows.rows:
            delete_rows(spark, table, changes, record, permit)
            say(f"{table.name}: {count_text(rows.rows, 'row')} deleted")
    left = [each for each in count_changes(spark, record.stream, streamed, changes) if each.rows]
    if left:
        raise RowsLeft(record.stream, left[0].location, left[0].rows)


def delete_rows(
    spark: SparkSession, table: StreamedTable, changes: RowChanges, record: OperationRecord, permit: Callable[[], None]
) -> None:
    """Delete the rows that leave one table. The commit in the table's history names the operation.

    By its transaction a home that was put back from a backup sees the deletion, also if no lineage followed it.

    A compaction may replace the same files meanwhile. The rows are then deleted from the new ones. ``permit`` is called
    before each try, because another process may have replaced the files after it took the lease.
    """
    if not table_exists(spark, table.name, table.location):
        return

    def delete() -> None:
        permit()
        deletion = f"{OF_DELETION}{record.id}"
        count = last_versions(spark, table.location).get(deletion, -1) + 1  # Delta skips a number that it has
        with temporary_settings(spark, {_APPLICATION: deletion, _NUMBER: str(count)}):
            DeltaTable.forPath(spark, table.location).delete(_changes_of(spark, [table], changes).deleted_rows)

    with noting(spark, f"{record.verb} {record.id}"):
        retry_conflicts(delete)


def _count_table(spark: SparkSession, stream: str, table: StreamedTable, changes: RowChanges) -> RowsOfTable:
    if not table_exists(spark, table.name, table.location):
        require_none_missing(stream, table, changes)
        return RowsOfTable(table.name, table.location, {})
    leaving, back = _count_by_day(_now(spark, table).where(changes.deleted_rows)), dict[str, int]()
    if changes.missing and table.version is not None:
        try:
            back = _count_by_day(_coming_back(spark, table, changes))
        except (PySparkException, JavaError) as error:
            if any(sign in str(error) for sign in _GONE):
                raise RowsGone(stream, table.location, table.version, java_message(error)) from error
            raise store_failure(error, table.location, f"the table {table.name}", java_message(error)) from error
    return RowsOfTable(table.name, table.location, leaving, back)


def _changes_of(spark: SparkSession, tables: Iterable[StreamedTable], changes: RowChanges) -> RowChanges:
    """Return the changes of ``tables``, with rows of lineages that a home put back from a backup does not know."""
    there = (table.location for table in tables if table_exists(spark, table.name, table.location))
    return changes.add_writers(name for location in there for name in last_versions(spark, location))


def _bring_back(
    spark: SparkSession, table: StreamedTable, changes: RowChanges, record: OperationRecord, permit: Callable[[], None]
) -> None:
    """Append the missing rows. The table takes the transaction once: a process that was overtaken adds nothing."""
    with noting(spark, f"{record.verb} {record.id}"):
        transaction = Transaction(f"{OF_RETURN}{record.id}", _ONLY)
        write_once(_coming_back(spark, table, changes), table.location, transaction, permit)


def _coming_back(spark: SparkSession, table: StreamedTable, changes: RowChanges) -> DataFrame:
    """Return the rows of the missing batches, as the table had them, without batches of which it has rows now."""
    with temporary_settings(spark, _ANY_AGE):
        then = spark.read.format("delta").option("versionAsOf", table.version).load(table.location)
    there = _now(spark, table).where(changes.missing_rows).select(*_WROTE).distinct()
    return then.where(changes.missing_rows).join(F.broadcast(there), _WROTE, "left_anti").select(*then.columns)


def _now(spark: SparkSession, table: StreamedTable) -> DataFrame:
    return spark.read.format("delta").load(table.location)


def _count_by_day(frame: DataFrame) -> dict[str, int]:
    days = frame.groupBy(F.col("date").cast("string").alias("day")).count().collect()
    return {row["day"]: row["count"] for row in sorted(days)}


_JOIN: Final = "symmetricHashJoin"
_FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_TIMERS: Final = "timers"
_COLLECTIONS: Final = ("ListState", "MapState")


def count_store_rows(spark: SparkSession, found: Inspection) -> list[dict[str, Any]]:
    """Count rows by store and by variable of a transformWithState, or say ``why`` that fails."""
    batch = found.checkpoint.committed
    if batch is None:
        return []
    counts = []
    with reading_state(spark), state_format(spark, found.checkpoint.state_format):
        for operator in found.checkpoint.operators.values():
            for store, variable, options in parts_of(operator):
                told = {"operator": operator.number, "store": store, "variable": variable, "rows": None, "why": None}
                reader = spark.read.format("statestore").option("batchId", batch).option("operatorId", operator.number)
                try:
                    told["rows"] = reader.options(**options).load(found.checkpoint.files.location).count()
                except (PySparkException, JavaError) as error:
                    told["why"] = java_message(error)
                counts.append(told)
    return counts


def state_format(spark: SparkSession, number: int | None) -> AbstractContextManager[None]:
    """Have Spark read a state in this format during the block, because it goes by the session, not by the files."""
    return temporary_settings(spark, {_FORMAT: str(number or 1)})


def parts_of(operator: Operator) -> Iterator[tuple[str, str | None, Mapping[str, str]]]:
    """Yield store, variable, and the options that the reader takes for it."""
    if operator.name == _JOIN:
        for side in ("left", "right"):
            yield side, None, {"joinSide": side}
        return
    variables = operator.properties.get("stateVariables")
    if variables is None:
        for store in operator.stores:
            yield store.name, None, {"storeName": store.name}
        return
    for variable in variables:
        if variable["stateName"].startswith("$"):  # Spark's own: its timers, which have a reader of their own
            continue
        flat = {"flattenCollectionTypes": "true"} if variable["stateVariableType"] in _COLLECTIONS else {}
        yield "default", variable["stateName"], {"stateVarName": variable["stateName"], **flat}
    if operator.properties.get("timeMode") not in {None, "NoTime"}:
        yield "default", _TIMERS, {"readRegisteredTimers": "true"}
