"""Stateful queries that are none of ours, as plain Spark runs them: the six kinds of state that it knows."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from sessionizer.spark.internals.checkpoint_files import LOCAL_FILES
from sessionizer.spark.session import temporary_settings

COLUMNS: Final = "k string, id string, ts timestamp"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
IN_FILES: Final = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
FILE_MANAGER: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
ROWS_PER_FILE: Final = 20


@dataclass(frozen=True, slots=True)
class Make:
    provider: str = ROCKSDB
    format: str = "2"
    changelog: bool = True
    shuffle: int = 2
    """Partitions of the state."""

    @property
    def settings(self) -> dict[str, str]:
        state = "spark.sql.streaming.stateStore"
        return {
            f"{state}.providerClass": self.provider,
            f"{state}.checkpointFormatVersion": self.format,
            f"{state}.rocksdb.changelogCheckpointing.enabled": str(self.changelog).lower(),
            # Spark's own choice on a local disk, which is not ours
            "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
            LOCAL_FILES: "org.apache.hadoop.fs.local.LocalFs",
            # snapshots come early, so that a few batches have one
            f"{state}.minDeltasForSnapshot": "2",
            "spark.sql.shuffle.partitions": str(self.shuffle),
        }


class Counter(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "count int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        count = sum(len(part) for part in rows) + (self._count.get()[0] if self._count.exists() else 0)
        self._count.update((count,))
        yield pd.DataFrame({"k": [key[0]], "count": [count]})

    def close(self) -> None:
        pass


def feed(folder: Path, number: int) -> None:
    """One more file: twenty rows of five keys, two minutes after those of the file before."""
    folder.mkdir(parents=True, exist_ok=True)
    minute = f"2026-01-01T{number // 30:02d}:{2 * (number % 30):02d}"
    rows = [
        {"k": f"k{row % 5}", "id": f"e{number}-{row}", "ts": f"{minute}:{row:02d}Z"} for row in range(ROWS_PER_FILE)
    ]
    hidden = folder / f".{number}"
    hidden.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    os.utime(hidden, (number, number))  # Spark reads the oldest first
    hidden.rename(folder / f"{number:03d}.json")


def _events(spark: SparkSession, folder: Path) -> DataFrame:
    files = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(folder))
    return files.withWatermark("ts", "30 seconds")


def query_of(spark: SparkSession, kind: str, folder: Path) -> DataFrame:
    events = _events(spark, folder)
    match kind:
        case "aggregation":
            found = events.groupBy(F.window("ts", "1 minute"), "k").count()
        case "session_window":
            found = events.groupBy(F.session_window("ts", "20 seconds"), "k").count()
        case "deduplication":
            found = events.dropDuplicatesWithinWatermark(["id"])
        case "join":
            near = "one.ts between other.ts - interval 9 seconds and other.ts + interval 9 seconds"
            both = F.expr(f"one.k = other.k and {near}")
            found = events.alias("one").join(_events(spark, folder).alias("other"), both)
        case "limit":
            found = events.limit(3 * ROWS_PER_FILE)
        case _:
            keyed = events.groupBy("k")
            found = keyed.transformWithStateInPandas(Counter(), "k string, count int", "append", "none")
    return found


def made(spark: SparkSession, make: Make) -> AbstractContextManager[None]:
    return temporary_settings(spark, make.settings)


def run(spark: SparkSession, kind: str, folder: Path, checkpoint: Path) -> dict[int, list[str]]:
    """Read all files, one a batch, and return the rows of each batch in order. Raises the query's error."""
    emitted: dict[int, list[str]] = {}

    def keep(rows: DataFrame, batch_id: int) -> None:
        emitted[batch_id] = sorted(str(row) for row in rows.collect())

    run_to_end(query_of(spark, kind, folder), checkpoint, keep)
    return emitted


def run_to_end(frame: DataFrame, checkpoint: Path, take: Callable[[DataFrame, int], None]) -> None:
    query = frame.writeStream.foreachBatch(take).outputMode("append")
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


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


def keep_lines(spark: SparkSession, kind: str, folder: Path, checkpoint: Path) -> None:
    """Keep what came of each key in a state of this kind, a JSON line an event."""

    def take(rows: DataFrame, _: int) -> None:
        rows.count()

    lines = spark.readStream.text(str(folder)).withColumnRenamed("value", "line")
    keyed: Any = lines.select(F.get_json_object("line", "$.key").alias("key"), "line").groupBy("key")
    if kind == "transform_with_state":
        frame = keyed.transformWithStateInPandas(Keeper(), "key string", "append", "none")
    else:
        frame = keyed.applyInPandasWithState(keep_in_group, "key string", "lines string", "append", "NoTimeout")
    run_to_end(frame, checkpoint, take)


QUERIES_OF_STATE: Final = {
    "transform_with_state": "select e.* from (select from_json(list_element.line, 'COLUMNS') e from history)",
    "apply_with_state": "select e.* from (select from_json(line, 'COLUMNS') e from history "
    "lateral view explode(split(value.groupState.lines, '\\n')) as line)",
}
"""How a person asks for what each of them keeps, once the columns of a line are put in."""
