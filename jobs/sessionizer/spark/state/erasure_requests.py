"""Table of requests to erase people, as Spark reads it and writes the moments into it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionizer.control.records.erasure_record import ErasureRecord, read_erased, read_erasures
from sessionizer.errors import InvalidSpec
from sessionizer.home.roots import folder_at, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.failures.query_failure import retry_conflicts
from sessionizer.state.commands.erasure_requests import DONE, OPTIONAL, REQUESTED_AT, STREAM, find_done, find_requests
from sessionizer.state.commands.erasures import Erase


@dataclass(frozen=True, slots=True)
class RequestTable:
    """The table at ``location`` with requests for the stream of ``home``. ``column`` identifies people."""

    spark: SparkSession
    home: StreamHome
    location: str
    column: str

    def read(self, until_ms: int, *, are_done: bool = False) -> dict[str, int]:
        """Return the values that are asked for up to ``until_ms``, and when (epoch ms): open requests, or done ones."""
        wanted = [F.col(self.column).cast("string"), *(name for name in OPTIONAL if name in self._columns())]
        rows = self.spark.read.format("delta").load(self.location).select(*wanted).toArrow()
        return find_requests(rows, self.column, self.home.name, until_ms, are_done=are_done)

    def write_done(self, until_ms: int) -> None:
        """Write into each request that the ledger of the stream fulfils, when that was done. Idempotent.

        Without a column ``done`` nothing is written.
        """
        if DONE not in self._columns():
            return
        ledger = read_erasures(self.home)
        for record, values in find_done(self.read(until_ms), ledger, read_erased(self.home), self.column):
            retry_conflicts(partial(self._mark, record, values))

    def _columns(self) -> list[str]:
        return self.spark.read.format("delta").load(self.location).columns

    def _mark(self, record: ErasureRecord, values: list[str]) -> None:
        columns, stream = self._columns(), F.lit(self.home.name)
        done = F.coalesce(F.col(f"requests.{DONE}"), F.expr("cast(map() as map<string, timestamp>)"))
        wanted = (F.col(f"requests.{self.column}").cast("string") == F.col("erased.value")) & ~F.map_contains_key(
            done, self.home.name
        )
        if STREAM in columns:
            wanted &= F.col(f"requests.{STREAM}").isNull() | (F.col(f"requests.{STREAM}") == stream)
        if REQUESTED_AT in columns:
            at = F.col(f"requests.{REQUESTED_AT}")
            wanted &= at.isNull() | (at <= F.timestamp_millis(F.lit(record.until)))
        erased = self.spark.createDataFrame(pa.table({"value": pa.array(values, pa.string())})).alias("erased")
        moment = F.create_map(stream, F.timestamp_millis(F.lit(record.swept_at)))
        merge = DeltaTable.forPath(self.spark, self.location).alias("requests").merge(erased, wanted)
        merge.whenMatchedUpdate(set={DONE: F.map_concat(done, moment)}).execute()


def find_request_table(spark: SparkSession, home: StreamHome, command: Erase) -> RequestTable:
    """Return the Delta table that the command names. Raises InvalidSpec if it lacks the column."""
    place = str(command.keys)
    location = uri_of(folder_at(place, "--keys"))
    if command.column in OPTIONAL or command.column not in spark.read.format("delta").load(location).columns:
        raise InvalidSpec("--keys", place, f"a table whose column {command.column} has the values")
    return RequestTable(spark, home, location, command.column)
