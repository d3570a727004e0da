"""Number of rows in any checkpoint's state, counted by Spark's own reader of states. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.session import temporary_settings
from sessionizer.spark.state.open_events import reading_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from sessionizer.checkpoint.descriptions import Operator
    from sessionizer.inspection.inspect import Inspection

_JOIN: Final = "symmetricHashJoin"
_FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_TIMERS: Final = "timers"
_COLLECTIONS: Final = ("ListState", "MapState")


def count_store_rows(spark: SparkSession, found: Inspection) -> list[dict[str, Any]]:
    """Count the ``rows`` of each store, and of each variable of a transformWithState, or say ``why`` that fails.

    Counted after the newest batch that is over.
    """
    batch = found.checkpoint.committed
    if batch is None:
        return []
    counts = []
    with reading_state(spark), state_format(spark, found.checkpoint.state_format):
        for operator in found.checkpoint.operators.values():
            for store, variable, options in parts_of(operator):
                told = {"operator": operator.number, "store": store, "variable": variable, "rows": None, "why": None}
                reader = spark.read.format("statestore").option("batchId", batch).option("operatorId", operator.number)
                try:
                    told["rows"] = reader.options(**options).load(found.checkpoint.files.location).count()
                except (PySparkException, JavaError) as error:
                    told["why"] = java_message(error)
                counts.append(told)
    return counts


def state_format(spark: SparkSession, number: int | None) -> AbstractContextManager[None]:
    """Have Spark read a state in this format during the block, because it goes by the session, not by the files."""
    return temporary_settings(spark, {_FORMAT: str(number or 1)})


def parts_of(operator: Operator) -> Iterator[tuple[str, str | None, Mapping[str, str]]]:
    """Yield store, variable, and the options that the reader takes for it."""
    if operator.name == _JOIN:
        for side in ("left", "right"):
            yield side, None, {"joinSide": side}
        return
    variables = operator.properties.get("stateVariables")
    if variables is None:
        for store in operator.stores:
            yield store.name, None, {"storeName": store.name}
        return
    for variable in variables:
        if variable["stateName"].startswith("$"):  # Spark's own: its timers, which have a reader of their own
            continue
        flat = {"flattenCollectionTypes": "true"} if variable["stateVariableType"] in _COLLECTIONS else {}
        yield "default", variable["stateName"], {"stateVarName": variable["stateName"], **flat}
    if operator.properties.get("timeMode") not in {None, "NoTime"}:
        yield "default", _TIMERS, {"readRegisteredTimers": "true"}
