"""The wall clock of a micro-batch, for expressions whose generated code is the same in every batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from sessionizer.spark.expressions import column_of

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
        self._java = cast("Any", spark.sparkContext._jvm)  # noqa: SLF001  no Python API
        self._instant = self._java.java.util.concurrent.atomic.AtomicReference()

    @property
    def now_ms(self) -> Column:
        """What the clock shows. A job that reads a clock that was never set fails."""
        types, scala = self._java.org.apache.spark.sql.types, self._java.scala.collection.immutable
        expressions = self._java.org.apache.spark.sql.catalyst.expressions
        instant = expressions.Literal(self._instant, types.ObjectType(self._instant.getClass()))
        bigint, no_arguments = _singleton(types, "LongType"), _singleton(scala, "Nil")
        # what is deterministic and depends on no row would be read while the batch is planned
        nullable = deterministic = False
        parts = (instant, "get", bigint, no_arguments, no_arguments, True, nullable, deterministic)
        return column_of(self._spark, expressions.objects.Invoke(*parts))

    def set(self, epoch_ms: int) -> None:
        """Show ``epoch_ms``, of 25 January 1970 or later: py4j makes a Long only of what no Integer holds."""
        self._instant.set(epoch_ms)

    def set_to_batch(self) -> None:
        """Show the clock of the micro-batch that calls: that of its offset log, so that a replay is judged alike."""
        manager = cast("Any", self._spark._jsparkSession).streams()  # noqa: SLF001  no Python API
        query = manager.get(self._spark.sparkContext.getLocalProperty(_RUNNING_QUERY))
        self.set(query.streamingQuery().lastExecution().offsetSeqMetadata().batchTimestampMs())


def _singleton(package: Any, name: str) -> Any:  # noqa: ANN401  Scala objects
    return getattr(getattr(package, f"{name}$"), "MODULE$")
