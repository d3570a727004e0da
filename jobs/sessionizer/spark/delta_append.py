"""Appends rows to a Delta table once for each (application, version), through Delta's own transactions.

``DataFrameWriter`` can do that, too (``txnAppId``, ``txnVersion``), but to learn which versions a table holds it has
Delta rebuild the table's whole state from its log after every commit, although the checksum beside each commit says so
(docs/adr/0011). Delta's transactions have no Python API, so this file speaks to its classes; no other one does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Transaction:
    """``version`` of ``application``: a table takes each version once, and none that is lower than one it has."""

    application: str
    version: int


def append_once(frame: DataFrame, location: str, transaction: Transaction, permit: Callable[[], None]) -> int | None:
    """Append ``frame`` to the table at ``location``; returns the table's version with it, None if it was there before.

    The columns of ``frame`` are those of the table, by name. ``permit`` raises when we may not write; it is asked
    before the data files are written and again before the commit that makes them part of the table. Raises what Spark
    raises: among it Delta's conflict, if another process commits the same application in between.
    """
    delta = _delta(frame)
    log = delta.DeltaLog.forTable(frame.sparkSession._jsparkSession, location)  # noqa: SLF001  no Python API
    attempt = log.startTransaction()
    if transaction.version <= _last_version(attempt.snapshot(), transaction.application):
        return None
    attempt.readTxn().append(transaction.application)  # from here on Delta takes its like for a conflict
    permit()
    files = attempt.writeFiles(frame._jdf)  # noqa: SLF001  no Python API
    permit()
    return int(attempt.commit(files.appended(_noted(frame, transaction)), _operation(frame, transaction)))


def _last_version(snapshot: Any, application: str) -> int:  # noqa: ANN401  a Java object
    """The highest version of ``application`` in the table, -1 if there is none."""
    known = snapshot.setTransactionsIfKnown()
    if not known.isDefined():  # no checksum, or one of so many applications that it leaves them out
        version = snapshot.transactions().get(application)
        return int(version.get()) if version.isDefined() else -1
    noted = known.get().iterator()
    while noted.hasNext():
        one = noted.next()
        if one.appId() == application:
            return int(one.version())
    return -1


def _noted(frame: DataFrame, transaction: Transaction) -> Any:  # noqa: ANN401  a Java object
    now_ms = _scala(frame).Option.apply(time.time_ns() // 1_000_000)
    return _delta(frame).actions.SetTransaction(transaction.application, transaction.version, now_ms)


def _operation(frame: DataFrame, transaction: Transaction) -> Any:  # noqa: ANN401  a Java object
    """What the table's history shows: a streaming update of this query and epoch."""
    streaming_update = getattr(_delta(frame), "DeltaOperations$StreamingUpdate")
    append = _java(frame).org.apache.spark.sql.streaming.OutputMode.Append()
    return streaming_update(append, transaction.application, transaction.version, _scala(frame).Option.empty())


def _delta(frame: DataFrame) -> Any:  # noqa: ANN401  a Java package
    return _java(frame).org.apache.spark.sql.delta


def _scala(frame: DataFrame) -> Any:  # noqa: ANN401  a Java package
    return _java(frame).scala


def _java(frame: DataFrame) -> Any:  # noqa: ANN401  py4j's view of the JVM
    return frame.sparkSession.sparkContext._jvm  # noqa: SLF001  no Python API
