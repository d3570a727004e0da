"""Appends rows to a Delta table once for each (application, version), through Delta's own transactions.

``DataFrameWriter`` can do that, too (``txnAppId``, ``txnVersion``), but to learn which versions a table holds it has
Delta rebuild the table's whole state from its log after every commit, although the checksum beside each commit says so
(docs/adr/0011). Delta's transactions have no Python API, so this file speaks to its classes; no other one does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessionizer.spark.internals.java_class import java_class, scala_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Transaction:
    """``version`` of ``application``: a table takes each version once, and none that is lower than one it has."""

    application: str
    version: int


def append_once(frame: DataFrame, location: str, transaction: Transaction, permit: Callable[[], None]) -> int | None:
    """Append ``frame`` to the table at ``location``; returns the table's version with it, None if it was there before.

    The columns of ``frame`` are among those of the table, by name. ``permit`` raises when we may not write; it is asked
    before the data files are written and again before the commit that makes them part of the table. Raises what Spark
    raises: among it Delta's conflict, if another process commits the same application in between, and its refusal of
    columns that the table does not have.
    """
    delta = _Delta(frame.sparkSession)
    log = delta.log(location)
    attempt = log.startTransaction()
    if transaction.version <= _last_version(attempt.snapshot(), transaction.application):
        return None
    attempt.readTxn().append(transaction.application)  # from here on Delta takes its like for a conflict
    permit()
    files = delta.write_files(attempt, log, frame)
    permit()
    return int(attempt.commit(files.appended(delta.noted(transaction)), delta.operation(transaction)))


def last_version(spark: SparkSession, location: str, application: str) -> int:
    """The highest version of ``application`` in the table at ``location``, -1 if there is none."""
    return _last_version(_Delta(spark).log(location).startTransaction().snapshot(), application)


def table_property(spark: SparkSession, location: str, name: str) -> str | None:
    """The value of a property of the table at ``location``; None if it has no such property, or is no table yet."""
    found = _Delta(spark).log(location).startTransaction().snapshot().metadata().configuration().get(name)
    return str(found.get()) if found.isDefined() else None


def applications(spark: SparkSession, location: str) -> set[str]:
    """Every application that the table at ``location`` took a transaction of."""
    each = _Delta(spark).log(location).startTransaction().snapshot().transactions().keysIterator()
    found = set()
    while each.hasNext():
        found.add(str(each.next()))
    return found


def _last_version(snapshot: Any, application: str) -> int:  # noqa: ANN401  a Java object
    checksum = snapshot.checksumOpt()
    noted = checksum.get().setTransactions() if checksum.isDefined() else checksum
    if not noted.isDefined():  # no checksum, or one of so many applications that it leaves them out
        version = snapshot.transactions().get(application)
        return int(version.get()) if version.isDefined() else -1
    each = noted.get().iterator()
    while each.hasNext():
        one = each.next()
        if one.appId() == application:
            return int(one.version())
    return -1


class _Delta:
    """Delta's classes, and Scala's where they want them, by py4j."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._session: Any = spark._jsparkSession  # noqa: SLF001  no Python API

    def log(self, location: str) -> Any:  # noqa: ANN401  a Java object
        return self._class("DeltaLog").forTable(self._session, location)

    def write_files(self, attempt: Any, log: Any, frame: DataFrame) -> Any:  # noqa: ANN401  Java objects
        """As ``DataFrameWriter`` does it: the columns are compared with the table's, then the data files written."""
        append, none = java_class(self._spark, "org.apache.spark.sql.SaveMode").Append, self._option().empty()
        no_options, no_columns = self._collection("Map").empty(), self._collection("List").empty()
        options = self._class("DeltaOptions")(no_options, self._session.sessionState().conf())
        rows, as_they_are = frame._jdf, False  # noqa: SLF001  no Python API
        parts = (log, append, options, no_columns, no_options, rows, none, none, as_they_are)
        return self._class("commands.WriteIntoDelta")(*parts).write(attempt, self._session, none, as_they_are)

    def noted(self, transaction: Transaction) -> Any:  # noqa: ANN401  a Java object
        """The action that makes the table remember the transaction."""
        now_ms = self._option().apply(time.time_ns() // 1_000_000)
        return self._class("actions.SetTransaction")(transaction.application, transaction.version, now_ms)

    def operation(self, transaction: Transaction) -> Any:  # noqa: ANN401  a Java object
        """What the table's history shows: a streaming update of this query and epoch."""
        append = java_class(self._spark, "org.apache.spark.sql.streaming.OutputMode").Append()
        streaming_update = self._class("DeltaOperations$StreamingUpdate")
        return streaming_update(append, transaction.application, transaction.version, self._option().empty())

    def _class(self, name: str) -> Any:  # noqa: ANN401  a Java class
        return java_class(self._spark, f"org.apache.spark.sql.delta.{name}")

    def _option(self) -> Any:  # noqa: ANN401  a Java class
        return java_class(self._spark, "scala.Option")

    def _collection(self, name: str) -> Any:  # noqa: ANN401  a Scala object
        return scala_object(self._spark, f"scala.collection.immutable.{name}")
