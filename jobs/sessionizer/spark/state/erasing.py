"""Sweep of the rows, old files and savepoints of erased people, beside the running stream.

Each part may be run again. It comes after the stream has gone on without them, so nothing new of them is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.core.wire.erased_keys import ErasedKeys
from sessionizer.core.wire.schema import CLIENT, KEY
from sessionizer.erasing.decoded import Piece
from sessionizer.erasing.records import cross_out_records
from sessionizer.erasing.search import Wanted
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import remove_data, remove_tree
from sessionizer.home.names import LATE_EVENTS, OPEN_SESSIONS, QUARANTINE, SESSIONS, SESSIONS_DAILY
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import GROUP_LOGS, StreamHome
from sessionizer.lineage.kept_spec import sink_folders
from sessionizer.spark.failures.query_failure import retry_conflicts
from sessionizer.spark.session import temporary_settings
from sessionizer.spark.sinks.tables import table_exists
from sessionizer.spark.state.savepoints.saved_state import has_table
from sessionizer.spark.state.savepoints.savepoint import rewrite_savepoint
from sessionizer.state.lineages.origin import origins_of
from sessionizer.state.savepoints.listing import (
    RemovalMark,
    Savepoint,
    being_read,
    list_savepoints,
    write_data_record,
)
from sessionizer.state.savepoints.manifest import SavepointState

_VALUE: Final = "value"
_OF: Final = {
    KEY: (SESSIONS, LATE_EVENTS, OPEN_SESSIONS),
    CLIENT: (SESSIONS, LATE_EVENTS, OPEN_SESSIONS, SESSIONS_DAILY),
}
"""The tables whose rows are of one person, by the column that says of whom."""
_RAW: Final = "raw"
_AT_ONCE: Final = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
}
_LOG_TOO_SHORT: Final = "DELTA_CANNOT_VACUUM_LITE"


@dataclass(frozen=True, slots=True)
class Sweep:
    """Sweep of ``people``, values of ``column``, from what the stream of ``home`` has written.

    ``folders``: with savepoints of the stream.
    """

    spark: SparkSession
    home: StreamHome
    people: Sequence[str]
    column: str
    folders: Sequence[DataPath]
    say: Callable[[str], None]

    def count_rows(self) -> dict[str, int]:
        """Count the rows of these people in each table that is there. Writes nothing."""
        found = dict[str, int]()
        for name, location, values, column in self._held():
            table = self.spark.read.format("delta").load(location)
            rows = table.join(values, table[column] == values[_VALUE], "left_semi").count()
            found[name] = found.get(name, 0) + rows
        return found

    def savepoints(self) -> list[Savepoint]:
        """Return all savepoints but those that are being made, by their ids."""
        found = [each for folder in self.folders for each in list_savepoints(folder, epoch_ms())]
        return sorted((each for each in found if each.state is not SavepointState.MAKING), key=lambda each: each.id)

    def erase_rows(self) -> None:
        """Delete the rows of these people, then the files that earlier versions of their tables consist of."""
        for name, location, values, column in self._held():
            delete_rows_of(self.spark, location, values, column)
            purge(self.spark, location)
            self.say(f"{name}: rows and old files deleted")

    def erase_savepoints(self) -> list[str]:
        """Remove native and incomplete savepoints, and write the canonical ones anew that hold events of these people.

        One of an early release, without logs, is removed as well.
        Returns those that a process reads just now, which stay as they are.
        """
        erased = ErasedKeys.naming(self.column, self.people)
        found = self.savepoints()
        busy = being_read(found, epoch_ms())
        for each in found:
            if each.id in busy:
                continue
            if each.is_complete and each.manifest is not None and has_table(each.manifest, GROUP_LOGS):
                new = rewrite_savepoint(self.spark, each.home, each.manifest, erased)
                if new is None:
                    continue
                self.say(f"savepoint {each.id}: written anew as {new}")
            else:
                self.say(f"savepoint {each.id}: removed")
            write_data_record(each.home.condemned, RemovalMark(epoch_ms()))
            remove_data(each.home.manifest)
            remove_tree(each.home.root)
        return sorted(busy)

    def erase_records(self) -> None:
        """Replace the values in the records and logs of the stream. Raises OSError."""
        for file in cross_out_records(self.home, self.people):
            self.say(f"{file.name}: values replaced")

    def _held(self) -> Iterator[tuple[str, str, DataFrame, str]]:
        """Yield each table with rows of these people, with the values of a column by which they are found."""
        people = self.spark.createDataFrame(pa.table({_VALUE: pa.array(self.people, pa.string())}))
        for folder in dict.fromkeys(sink_folders(self.home, origins_of(self.home))):
            for name, location in self.home.table_locations(folder).items():
                if name in _OF[self.column] and table_exists(self.spark, name, location):
                    yield name, location, people, self.column
                elif name == QUARANTINE and table_exists(self.spark, name, location):
                    yield name, location, self._texts(location), _RAW

    def _texts(self, location: str) -> DataFrame:
        """Return the different texts in quarantine that hold one of the values."""
        people = tuple(self.people)

        def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            wanted = Wanted(people)
            for batch in batches:
                texts = batch.column(0).to_pylist()
                held = (text is not None and wanted.count(Piece(_RAW, text.encode(), is_text=True)) for text in texts)
                yield batch.filter(pa.array(map(bool, held), pa.bool_()))

        raw = self.spark.read.format("delta").load(location).select(F.col(_RAW).alias(_VALUE)).distinct()
        return raw.mapInArrow(find, raw.schema)


def delete_rows_of(spark: SparkSession, location: str, values: DataFrame, column: str) -> None:
    """Delete the rows of a table whose ``column`` has one of the ``values``, a table of one column."""
    found = values.toDF(_VALUE).alias("erased")

    def delete() -> None:
        merge = DeltaTable.forPath(spark, location).alias("rows").merge(found, f"rows.{column} = erased.{_VALUE}")
        merge.whenMatchedDelete().execute()  # the condition of a DELETE would name them in the log

    retry_conflicts(delete)


def purge(spark: SparkSession, location: str) -> None:
    """Delete the data files, and those of the change feed, that no longer belong to the table.

    Only files that its log names are deleted, so that a batch which is being written keeps its own.
    """
    with temporary_settings(spark, _AT_ONCE):
        spark.sql(f"REORG TABLE delta.`{location}` APPLY (PURGE)")  # rows that a deletion vector hides
        try:
            spark.sql(f"VACUUM delta.`{location}` LITE RETAIN 0 HOURS")
        except PySparkException as error:
            if _LOG_TOO_SHORT not in str(error):
                raise
            spark.sql(f"VACUUM delta.`{location}`")  # from now on the log is long enough
            spark.sql(f"VACUUM delta.`{location}` LITE RETAIN 0 HOURS")
