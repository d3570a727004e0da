"""Measures: SQL aggregates over each finished session's events, as columns of its row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sessionizer.errors import InvalidSpec
from sessionizer.spark.expressions import first_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

_SESSION = "_session"


def measure_types(sessions: DataFrame, measures: Mapping[str, str]) -> StructType:
    """The columns the measures add. Raises InvalidSpec for one that is no aggregate over the events' columns."""
    events = sessions.select(F.explode("events").alias("event")).select("event.*")
    columns = StructType()
    for name, sql in measures.items():
        try:
            columns = columns.add(events.groupBy().agg(F.expr(sql).alias(name)).schema[name])
        except PySparkException as error:
            allowed = f"a SQL aggregate over {', '.join(events.columns)} ({first_line(error)})"
            raise InvalidSpec(f"measures.{name}", sql, allowed) from error
    return columns


def with_measures(sessions: DataFrame, measures: Mapping[str, str]) -> DataFrame:
    """``sessions`` (unique by ``session_id``) with the measures as columns."""
    if not measures:
        return sessions
    events = sessions.select(F.col("session_id").alias(_SESSION), F.explode("events").alias("event"))
    events = events.select(_SESSION, "event.*")
    computed = events.groupBy(_SESSION).agg(*(F.expr(sql).alias(name) for name, sql in measures.items()))
    return sessions.join(computed, sessions["session_id"] == computed[_SESSION], "left").drop(_SESSION)
