"""Write of rows to a Delta table, once for each (application, version).

**Private**: Delta's own transactions, which have no Python API (docs/adr/0011).
**Public**: ``DataFrameWriter`` with ``txnAppId`` and ``txnVersion``: a version that the table has is skipped, and of
two drivers that write one at the same time the second gets Delta's conflict.
**Lost**: to learn which versions a table holds Delta rebuilds its whole state from its log after every commit, although
the checksum beside each commit says so. The permit is asked before the data files are written, not again before the
commit: a driver that loses its lease in between is held off by Delta's conflict alone, once its successor has written
that batch. The table's history shows ``WRITE``, without lineage and batch.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from sessionizer.launch.driver_environment import plain
from sessionizer.spark.internals.delta_log import delta_log, read_transaction_version
from sessionizer.spark.internals.java_class import java_class, scala_object
from sessionizer.spark.internals.java_errors import door

DOOR: Final = "Delta's transaction"
LAST_COMMIT: Final = "spark.databricks.delta.lastCommitVersionInSession"
"""Setting in which Delta notes the version of the table that a session has committed last."""
_DELTA: Final = "org.apache.spark.sql.delta"


@dataclass(frozen=True, slots=True)
class Transaction:
    """A ``version`` of an ``application``. A table takes each version once, and none that is lower than one it has."""

    application: str
    version: int


class TableMissing(Exception):
    """There is no table at ``location``, and an append would make one."""

    def __init__(self, location: str) -> None:
        self.location = location
        super().__init__(f"there is no table at {location}")


def write_once(
    frame: DataFrame, location: str, transaction: Transaction, permit: Callable[[], None], *, replaces: bool = False
) -> int | None:
    """Append ``frame`` to the table at ``location``. Returns the table's version with it, None if it was there before.

    ``replaces``: instead of all rows of the table, in the same commit.

    The columns of ``frame`` are among those of the table, by name. ``permit`` raises when we may not write. It is
    called before the data files are written and again before the commit that makes them part of the table (in plain
    Spark before the data files only). Raises Spark's errors: among them Delta's conflict, if another process commits
    the same application in between, and its refusal of columns that the table does not have. Raises TableMissing,
    PrivateDoorBroken.
    """
    if plain():
        permit()
        if not DeltaTable.isDeltaTable(frame.sparkSession, location):
            raise TableMissing(location)
        settings = frame.sparkSession.conf
        settings.unset(LAST_COMMIT)
        writer = frame.write.format("delta").mode("overwrite" if replaces else "append")
        writer.option("txnAppId", transaction.application).option("txnVersion", transaction.version).save(location)
        version = settings.get(LAST_COMMIT, None)
        return None if version is None else int(version)
    with door(DOOR):
        log = delta_log(frame.sparkSession, location)
        attempt = log.startTransaction()
        is_there = attempt.snapshot().version() >= 0
        if is_there and transaction.version <= read_transaction_version(attempt.snapshot(), transaction.application):
            return None
        if is_there:
            attempt.readTxn().append(transaction.application)  # from here on Delta takes its like for a conflict
    if not is_there:
        raise TableMissing(location)
    permit()
    with door(DOOR):
        files = _write_files(attempt, log, frame, replaces=replaces)
    permit()
    with door(DOOR):
        find = partial(java_class, frame.sparkSession)
        option, mode = find("scala.Option"), find("org.apache.spark.sql.streaming.OutputMode")
        known = transaction.application, transaction.version
        # the table remembers the transaction, and its history shows a streaming update of this query and epoch
        noted = find(f"{_DELTA}.actions.SetTransaction")(*known, option.apply(time.time_ns() // 1_000_000))
        update = find(f"{_DELTA}.DeltaOperations$StreamingUpdate")
        shown = update(mode.Complete() if replaces else mode.Append(), *known, option.empty())
        return int(attempt.commit(files.appended(noted), shown))


def _write_files(attempt: Any, log: Any, frame: DataFrame, *, replaces: bool) -> Any:  # noqa: ANN401  Java objects
    """Compare the columns with the table's, then write the data files, in the way of ``DataFrameWriter``."""
    find, session = partial(java_class, frame.sparkSession), cast("Any", frame.sparkSession)._jsparkSession  # noqa: SLF001  no Python API
    modes, none = find("org.apache.spark.sql.SaveMode"), find("scala.Option").empty()
    mode = modes.Overwrite if replaces else modes.Append
    no_options, no_columns = (
        scala_object(frame.sparkSession, f"scala.collection.immutable.{kind}").empty() for kind in ("Map", "List")
    )
    options = find(f"{_DELTA}.DeltaOptions")(no_options, session.sessionState().conf())
    rows, as_they_are = frame._jdf, False  # noqa: SLF001  no Python API
    parts = (log, mode, options, no_columns, no_options, rows, none, none, as_they_are)
    return find(f"{_DELTA}.commands.WriteIntoDelta")(*parts).write(attempt, session, none, as_they_are)
