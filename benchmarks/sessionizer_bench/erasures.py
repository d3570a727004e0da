"""Time of an erasure of many people, beside Delta's own DELETE and VACUUM of the same keys.

A stopped stream has a million open sessions, and its table of finished sessions is filled up to some GB. The peer works
on a copy of that table alone. It has no state, savepoints or records. A rescale has the stream stopped, too.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import functions as F

from sessionizer.control.execution import execute
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.erasure_record import SECRET
from sessionizer.home.names import SESSIONS
from sessionizer.spark.session import spark_session, temporary_settings
from sessionizer.spark.state.commands.erasures import EraseRunner
from sessionizer.state.commands.erasures import Erase
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from sessionizer_bench.data.generator import stored
from sessionizer_bench.driver import SETTINGS
from sessionizer_bench.measuring import machine
from sessionizer_bench.places import DATASETS, RUNS
from sessionizer_bench.state_verbs import MILLION, Bench, streamed
from sessionizer_bench.state_verbs import quick as quick_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.home.stream_home import StreamHome

PROMISE: Final = 1.5
PEER: Final = "Delta's DELETE and VACUUM"
RESCALE: Final = "a rescale of the same state"
OURS: Final = "erase"
_AT_ONCE: Final = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the work: ``people`` to erase, and at least ``bytes`` of finished sessions."""

    people: int
    bytes: int


FULL: Final = Size(10_000, 5_000_000_000)
QUICK: Final = Size(100, 5_000_000)


def measured(size: Size, say: Callable[[str], None]) -> dict[str, Any]:
    """Return the seconds of the erasure, by part, and of its peer."""
    os.environ.setdefault(SECRET, "a secret of the benchmark")
    dataset = MILLION if size == FULL else quick_dataset()
    folder = RUNS / f"erase-{dataset.name}"
    shutil.rmtree(folder, ignore_errors=True)
    home = streamed(dataset, folder, say)
    spark = spark_session("benchmark erase", "local[2]", SETTINGS)
    table = home.table_locations(None)[SESSIONS]
    rows = _fill(spark, table, stored(dataset, DATASETS).files, size.bytes, say)
    copy = folder / "copy"
    shutil.copytree(table, copy)
    asked = SavepointRequest(home.savepoints, "benchmark", "native")
    make_native_savepoint(home, read_committed_batch(home), asked, lambda _: None)
    keys = spark.read.format("delta").load(table).select("key").distinct().orderBy(F.hash("key")).limit(size.people)
    people = tuple(sorted(row[0] for row in keys.collect()))
    took: dict[str, float] = {}

    def timed(name: str, work: Callable[..., None], *given: Any) -> None:
        started = time.perf_counter()
        work(spark, *given, people)
        took[name] = round(time.perf_counter() - started, 1)
        say(f"{name}: {took[name]} s")

    state = Bench(spark, home, folder, "")
    for _ in range(2):  # the first one warms the JVM
        state.timed(RESCALE, state.rescale)
    took[RESCALE] = round(state.took[RESCALE][-1], 1)
    timed(PEER, _delete, copy)
    timed(OURS, _erase, home, took)
    left = [_count(spark, place, people) for place in (table, str(copy))]
    spark.stop()
    return {
        "people": len(people),
        "rows": rows,
        "bytes": size.bytes,
        "seconds": took,
        "rows_left": left,
        "ratio": round(took[OURS] / took[PEER], 2),
        "load_after": machine.load_average(),
    }


def lines(record: dict[str, Any]) -> Iterator[str]:
    """Yield the record as lines to print."""
    yield f"{record['people']:,} people of {record['rows']:,} finished sessions, {record['bytes'] / 1e9:.3g} GB"
    yield ", ".join(f"{name}: {took} s" for name, took in record["seconds"].items())
    yield f"erase ÷ DELETE and VACUUM: {record['ratio']} × (promised: at most {PROMISE} ×)"


def _fill(spark: SparkSession, table: str, events: Path, wanted: int, say: Callable[[str], None]) -> int:
    """Append finished sessions of the same users, a day earlier each time, until the table has the ``wanted`` bytes.

    ``events``: the files that the stream has read. Return the number of rows.
    """
    shape, day = spark.read.format("delta").load(table).schema, 0
    while (size := _bytes(spark, table)) < wanted:
        day += 1
        say(f"filling: {size / 1e9:.2f} GB")
        rows = spark.read.parquet(str(events)).selectExpr(
            "user_id",
            f"event_time - interval {day} days AS event_time",
            f"substr(sha2(concat(event_id, '{day}'), 256), 1, 16) AS event_id",
            "is_last AS closes",
            "data",
        )
        event = F.struct("event_time", "event_id", "closes", "data")
        ended = rows.groupBy(F.col("user_id").alias("key")).agg(F.sort_array(F.collect_list(event)).alias("events"))
        values = {
            "session_id": "uuid()",
            "key": "key",
            "date": "to_date(events[0].event_time)",
            "started_at": "events[0].event_time",
            "ended_at": "element_at(events, -1).event_time",
            "event_count": "size(events)",
            "close_reason": "'gap'",
            "events": "events",
            "lineage": "'of the benchmark'",
            "batch_id": str(day),
            "emitted_at": "element_at(events, -1).event_time",
        }
        columns = [F.expr(values.get(each.name, "null")).cast(each.dataType).alias(each.name) for each in shape]
        ended.select(columns).write.format("delta").mode("append").save(table)
    return spark.read.format("delta").load(table).count()


def _bytes(spark: SparkSession, table: str) -> int:
    return int(spark.sql(f"DESCRIBE DETAIL delta.`{table}`").select("sizeInBytes").collect()[0][0])


def _delete(spark: SparkSession, table: Path, people: tuple[str, ...]) -> None:
    DeltaTable.forPath(spark, str(table)).delete(F.col("key").isin(*people))  # a DELETE takes no subquery
    with temporary_settings(
        spark, {**_AT_ONCE, "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false"}
    ):
        spark.sql(f"VACUUM delta.`{table}` RETAIN 0 HOURS")


def _erase(spark: SparkSession, home: StreamHome, took: dict[str, float], people: tuple[str, ...]) -> None:
    """Carry the erasure out as the command does, from its plan on, and sweep."""
    runner = EraseRunner(spark=spark, home=home, command=Erase(keys="-"), people=people, folders=(home.savepoints,))
    started = time.perf_counter()
    plan = runner.look()
    took["of that, the plan"] = round(time.perf_counter() - started, 1)
    record = new_operation(home, Erase.name, plan.digest, "benchmark", plan.leaves, decided=plan.decided)
    job = Maintenance(record.id, "benchmark", "a benchmark", record.wanted)
    started = time.perf_counter()
    with hold_lease(home, job, 60, lambda _: None) as lease:
        execute(Operation(home, record, lease.check), runner)
    took["of that, with the stream stopped"] = round(time.perf_counter() - started, 1)
    runner.finish()


def _count(spark: SparkSession, table: str, people: tuple[str, ...]) -> int:
    rows = spark.read.format("delta").load(table)
    return rows.join(_frame(spark, people), rows.key == F.col("value"), "left_semi").count()


def _frame(spark: SparkSession, people: tuple[str, ...]) -> Any:  # noqa: ANN401  a DataFrame
    return spark.createDataFrame(pa.table({"value": pa.array(people, pa.string())}))
