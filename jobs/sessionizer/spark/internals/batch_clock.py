"""The wall clock of a micro-batch, for expressions whose generated code is the same in every batch.

**Private**: a Java object in Catalyst's ``Invoke``, set from the offset log of the running batch (docs/tuning.md).
**Public**: ``current_timestamp()``, which Spark replaces by the same instant, in a table of one row that is broadcast
to the rows (docs/tuning.md). In their own plan it would be written as a number into the Java text that Spark generates,
which would then be compiled anew in every batch. A higher-order function keeps it out of the text of the table.
**Lost**: a small job in every batch, which reads that one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql import functions as F

from sessionizer.launch.driver_environment import plain
from sessionizer.spark.internals.java_class import catalyst, column_of, java_class, scala_object
from sessionizer.spark.internals.java_errors import door
from sessionizer.spark.internals.planned_batches import running_query

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DOOR: Final = "batch clock"
_NOW_MS: Final = "_now_ms"


class BatchClock(Protocol):
    """The clock of a query: a column with the epoch ms that the clock has when a job begins."""

    def add_clock(self, rows: DataFrame) -> DataFrame:
        """Return ``rows`` over which ``now_ms`` can be evaluated. They may have one column more."""

    @property
    def now_ms(self) -> Column:
        """Return the clock's time, for rows that ``add_clock`` returned."""

    def set(self, epoch_ms: int) -> None:
        """Set the clock to ``epoch_ms``, for a query that is no stream, before ``now_ms`` is called."""

    def set_to_batch(self) -> None:
        """Set the clock to the time in the offset log of the calling micro-batch, so that a replay is judged alike."""


def batch_clock(spark: SparkSession) -> BatchClock:
    """Make a clock that is not set yet. Raises PrivateDoorBroken."""
    if plain():
        return PublicClock()
    with door(DOOR):
        return ObjectClock(spark)


class PublicClock:
    """Spark's own ``current_timestamp()``: in a stream it is the batch's clock without being set."""

    def __init__(self) -> None:
        self._instant: int | None = None

    def add_clock(self, rows: DataFrame) -> DataFrame:
        """Add the clock of the batch as a column, unless one was set."""
        if self._instant is not None:
            return rows
        hidden = F.transform(F.array(F.lit(0)), lambda _: F.unix_millis(F.current_timestamp()))
        clock = rows.sparkSession.range(0, 1, 1, numPartitions=1).select(hidden.getItem(0).alias(_NOW_MS))
        return rows.crossJoin(F.broadcast(clock))

    @property
    def now_ms(self) -> Column:
        """Return that column, or the time that was set."""
        return F.col(_NOW_MS) if self._instant is None else F.lit(self._instant).cast("bigint")

    def set(self, epoch_ms: int) -> None:
        """Set the clock to ``epoch_ms``."""
        self._instant = epoch_ms

    def set_to_batch(self) -> None:
        """Do nothing, because Spark sets its clock."""


class ObjectClock:
    """A Java object that is passed to each job with the value that it has when the job begins.

    Spark writes ``current_timestamp()`` as a number into the Java text that it generates, which is then new in every
    batch. An object is passed by reference instead (docs/tuning.md).
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._instant = java_class(spark, "java.util.concurrent.atomic.AtomicReference")()

    def add_clock(self, rows: DataFrame) -> DataFrame:
        """Return the rows as they are."""
        return rows

    @property
    def now_ms(self) -> Column:
        """Return the clock's time. A job that reads a clock that was never set fails."""
        with door(DOOR):
            object_type = java_class(self._spark, "org.apache.spark.sql.types.ObjectType")
            instant = catalyst(self._spark, "Literal")(self._instant, object_type(self._instant.getClass()))
            bigint = scala_object(self._spark, "org.apache.spark.sql.types.LongType")
            no_arguments = scala_object(self._spark, "scala.collection.immutable.Nil")
            # a deterministic expression that depends on no row would be read while the batch is planned
            nullable = deterministic = False
            parts = (instant, "get", bigint, no_arguments, no_arguments, True, nullable, deterministic)
            return column_of(self._spark, catalyst(self._spark, "objects.Invoke")(*parts))

    def set(self, epoch_ms: int) -> None:
        """Set it to ``epoch_ms``, of 25 January 1970 or later.

        Earlier numbers would fit into an Integer, and py4j makes a Long only of larger ones.
        """
        self._instant.set(epoch_ms)

    def set_to_batch(self) -> None:
        """Set it to the clock of the calling micro-batch."""
        with door(DOOR):
            self.set(running_query(self._spark).lastExecution().offsetSeqMetadata().batchTimestampMs())
