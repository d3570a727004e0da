"""Queries of somebody else's that keep what came of each key in their state, a JSON line an event."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


class Keeper(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self._lines = handle.getListState("lines", "line string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        self._lines.appendList([(line,) for part in rows for line in part["line"]])
        yield pd.DataFrame({"key": [key[0]]})

    def close(self) -> None:
        pass


def keep_in_group(key: Any, parts: Any, state: Any) -> Iterator[pd.DataFrame]:
    """The same, in one text: Spark 4.2 does not take an array here."""
    before = [state.get[0]] if state.exists else []
    state.update(("\n".join([*before, *(line for part in parts for line in part["line"])]),))
    yield pd.DataFrame({"key": [key[0]]})


def _keyed(spark: SparkSession, folder: Path) -> Any:
    lines = spark.readStream.text(str(folder)).withColumnRenamed("value", "line")
    return lines.select(F.get_json_object("line", "$.key").alias("key"), "line").groupBy("key")


def transform_with_state(spark: SparkSession, folder: Path) -> DataFrame:
    frame: DataFrame = _keyed(spark, folder).transformWithStateInPandas(Keeper(), "key string", "append", "none")
    return frame


def apply_with_state(spark: SparkSession, folder: Path) -> DataFrame:
    frame: DataFrame = _keyed(spark, folder).applyInPandasWithState(
        keep_in_group, "key string", "lines string", "append", "NoTimeout"
    )
    return frame


QUERIES: Final[Mapping[str, Callable[[SparkSession, Path], DataFrame]]] = {
    "transform_with_state": transform_with_state,
    "apply_with_state": apply_with_state,
}
QUERIES_OF_STATE: Final = {
    "transform_with_state": "select e.* from (select from_json(list_element.line, 'COLUMNS') e from history)",
    "apply_with_state": "select e.* from (select from_json(line, 'COLUMNS') e from history "
    "lateral view explode(split(value.groupState.lines, '\\n')) as line)",
}
"""How a person asks for what each of them keeps, once the columns of a line are put in."""


def _take(rows: DataFrame, _: int) -> None:
    rows.count()


def run(spark: SparkSession, kind: str, folder: Path, checkpoint: Path) -> None:
    query = QUERIES[kind](spark, folder).writeStream.foreachBatch(_take).outputMode("append")
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
