"""Our pipeline with a core that does nothing: the floor of any core behind Spark's state operator in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessionizer.spark.query import assembly
from sessionizer.spark.query.processor import SessionProcessor
from sessionizer_bench.contestants import ours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from sessionizer_bench.contestants.race import Race


class IdleProcessor(SessionProcessor):
    """The operator of a key group that takes its packed rows, keeps nothing and emits nothing."""

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,  # noqa: ANN401, ARG002  as Spark has it
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ANN401, ARG002, N803  as Spark has it
    ) -> Iterator[Row]:
        """Take the rows."""
        for _ in rows:
            pass
        return iter(())


def start(spark: SparkSession, race: Race) -> tuple[StreamingQuery, ours.Diary]:
    """Start our query with it, in this process alone."""
    # the query has no other way to another core
    assembly.SessionProcessor = IdleProcessor  # type: ignore[attr-defined]
    return ours.start(spark, race)
