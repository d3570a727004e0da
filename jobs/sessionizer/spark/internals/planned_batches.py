"""A running query that takes each next batch from its offset log, where it would plan a batch of its own.

**Private**: the trigger executor of Spark's ``MicroBatchExecution``, which hands over the context of the next batch. It
is wrapped, and the context is filled by the method that fills it for a query that starts on a planned batch.
**Public**: the trigger ``once``, which runs the one batch that is planned.
**Lost**: each batch is a query of its own, which loads the state, analyses the plan and starts a Python worker anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from pyspark.sql import SparkSession

from sessionizer.spark.internals.java_class import scala_object
from sessionizer.spark.internals.java_errors import door

DOOR: Final = "planned batches"
_RUNTIME: Final = "org.apache.spark.sql.execution.streaming.runtime"


def follow_offset_log(spark: SparkSession, plan_next: Callable[[], bool]) -> None:
    """Have the query that runs the calling batch take its next batches from its offset log.

    ``plan_next`` is called when a batch is committed. It puts the next one into the offset log, or returns False: then
    the query ends. Raises PrivateDoorBroken.
    """
    with door(DOOR):
        manager = cast("Any", spark._jsparkSession).streams()  # noqa: SLF001  no Python API
        # Spark names the streaming query that a thread works for in a local property
        query = manager.get(spark.sparkContext.getLocalProperty("sql.streaming.queryId")).streamingQuery()
        ended = scala_object(spark, f"{_RUNTIME}.TERMINATED")
        planned = _PlannedBatches(query, query.triggerExecutor(), ended, plan_next)
        getattr(query, "triggerExecutor_$eq")(planned)  # Scala's name of a setter


@dataclass(frozen=True, slots=True)
class _PlannedBatches:
    """An executor in the place of Spark's own ``executor``. ``ended``: Spark's state of a query that is over."""

    query: Any
    executor: Any
    ended: Any
    plan_next: Callable[[], bool]

    def setNextBatch(self, context: Any) -> None:  # noqa: ANN401, N802  a Java object, a method of Java
        """Fill the ``context`` of the next batch from the offset log. The last batch ends the query."""
        is_planned = self.plan_next()
        with door(DOOR):
            if is_planned:
                self.query.populateStartOffsets(context, self.query.sparkSessionForStream())
            else:
                self.query.state().set(self.ended)
            self.executor.setNextBatch(context)

    class Java:
        """Declaration for py4j of the interface that this class implements."""

        implements: ClassVar = [f"{_RUNTIME}.TriggerExecutor"]
