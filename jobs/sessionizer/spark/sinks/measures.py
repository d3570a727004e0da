"""Measures: SQL aggregates over each finished session's events, as columns of its row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sessionizer.errors import InvalidSpec, SpecProblems
from sessionizer.spark.ingest.expressions import VARIES, reads_clock, require_permitted
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.internals.trying import ReadsClock, require_no_text_moment
from sessionizer.spark.sinks.guarded_aggregates import GuardedAggregates
from sessionizer.stream_spec.sql_functions import NEVER_FAILING
from sessionizer.stream_spec.sql_guard import SAME_EACH_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

_SESSION: Final = "_session"
_KNOWN: Final = ", ".join(sorted(NEVER_FAILING))


def measure_types(sessions: DataFrame, measures: Mapping[str, str]) -> StructType:
    """Return the columns that the measures add.

    Raises InvalidSpec for one that is no aggregate over the events' columns.
    """
    events = sessions.select(F.col("session_id").alias(_SESSION), F.explode("events").alias("event"))
    events = events.select(_SESSION, "event.*")
    columns, misfits = StructType(), SpecProblems()
    for name, sql in measures.items():
        with misfits.noted():
            columns = columns.add(_fitting(events, name, sql))
    misfits.raise_them()
    _require_plan(events, measures)
    return columns


def _fitting(events: DataFrame, name: str, sql: str) -> StructField:
    try:
        return _check_measure(events, name, sql)
    except ReadsClock as error:
        raise reads_clock(f"measures.{name}", sql, error) from error
    except (PySparkException, JavaError) as error:
        if isinstance(error, PySparkException) and error.getCondition() == VARIES:
            varying = "".join((error.getMessageParameters() or {}).values())
            raise InvalidSpec(f"measures.{name}", sql, f"{SAME_EACH_TIME} {varying}") from error
        names = ", ".join(column for column in events.columns if column != _SESSION)
        raise InvalidSpec(f"measures.{name}", sql, f"a SQL aggregate over {names} ({java_message(error)})") from error


def _require_plan(events: DataFrame, measures: Mapping[str, str]) -> None:
    """Raise InvalidSpec if Spark cannot plan a measure that it could resolve.

    Spark has bugs in aggregates of several kinds.
    """
    if _unplannable(events, measures) is None:
        return
    together: dict[str, str] = {}
    for name, sql in measures.items():
        together[name] = sql
        if (error := _unplannable(events, together)) is not None:
            allowed = f"an aggregate that Spark can plan together with the measures before it ({java_message(error)})"
            raise InvalidSpec(f"measures.{name}", sql, allowed) from error


def _unplannable(events: DataFrame, measures: Mapping[str, str]) -> PySparkException | JavaError | None:
    """Return the error of planning the measures, None if Spark can. The plan runs over no events at all."""
    computed = GuardedAggregates.of(events.sparkSession, measures).evaluate(events, _SESSION)
    try:
        computed.write.format("noop").mode("overwrite").save()
    except (PySparkException, JavaError) as error:
        return error
    return None


def _check_measure(events: DataFrame, name: str, sql: str) -> StructField:
    """Return the column of one measure, as it will be computed."""
    spark, field = events.sparkSession, f"measures.{name}"
    require_permitted(events, field, sql, measure=True)
    require_no_text_moment(events.drop(_SESSION).groupBy().agg(F.expr(sql).alias(name)))
    guarded = GuardedAggregates.of(spark, {name: sql})
    if not guarded.columns:
        raise InvalidSpec(field, sql, f"aggregates that never fail: {_KNOWN}")
    for column in events.select(*guarded.inputs.values()).schema if guarded.inputs else ():
        if "interval" in column.dataType.simpleString():
            raise InvalidSpec(
                field, sql, "an aggregate of values that are no intervals, because a sum of intervals may overflow"
            )
    return guarded.evaluate(events, _SESSION).schema[name]


def add_measures(sessions: DataFrame, measures: GuardedAggregates) -> DataFrame:
    """Return ``sessions`` (unique by ``session_id``) with the measures as columns, null where evaluating one fails."""
    if not measures.columns:
        return sessions
    events = sessions.select(F.col("session_id").alias(_SESSION), F.explode("events").alias("event"))
    computed = measures.evaluate(events.select(_SESSION, "event.*"), _SESSION)
    return sessions.join(computed, sessions["session_id"] == computed[_SESSION], "left").drop(_SESSION)
