"""The wall clock of a micro-batch, for expressions whose generated code is the same in every batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from sessionizer.spark.internals.catalyst import catalyst, column_of
from sessionizer.spark.internals.java_class import java_class, scala_object

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_RUNNING_QUERY: Final = "sql.streaming.queryId"
"""The local property in which Spark names the streaming query that a thread works for."""


class BatchClock:
    """The clock of one query: a column that shows, in epoch ms, what the clock was set to when the job began.

    Spark writes ``current_timestamp()`` as a number into the Java text that it generates, which is then new in every
    batch. An object is not written but handed over, to each job as it is when the job begins (docs/adr/0039).
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._instant = java_class(spark, "java.util.concurrent.atomic.AtomicReference")()

    @property
    def now_ms(self) -> Column:
        """What the clock shows. A job that reads a clock that was never set fails."""
        object_type = java_class(self._spark, "org.apache.spark.sql.types.ObjectType")
        instant = catalyst(self._spark, "Literal")(self._instant, object_type(self._instant.getClass()))
        bigint = scala_object(self._spark, "org.apache.spark.sql.types.LongType")
        no_arguments = scala_object(self._spark, "scala.collection.immutable.Nil")
        # what is deterministic and depends on no row would be read while the batch is planned
        nullable = deterministic = False
        parts = (instant, "get", bigint, no_arguments, no_arguments, True, nullable, deterministic)
        return column_of(self._spark, catalyst(self._spark, "objects.Invoke")(*parts))

    def set(self, epoch_ms: int) -> None:
        """Show ``epoch_ms``, of 25 January 1970 or later: py4j makes a Long only of what no Integer holds."""
        self._instant.set(epoch_ms)

    def set_to_batch(self) -> None:
        """Show the clock of the micro-batch that calls: that of its offset log, so that a replay is judged alike."""
        manager = cast("Any", self._spark._jsparkSession).streams()  # noqa: SLF001  no Python API
        query = manager.get(self._spark.sparkContext.getLocalProperty(_RUNNING_QUERY))
        self.set(query.streamingQuery().lastExecution().offsetSeqMetadata().batchTimestampMs())
