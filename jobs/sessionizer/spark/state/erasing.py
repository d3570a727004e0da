"""Sweep of the rows, old files and savepoints of erased people, beside the running stream.

Each part may be run again. It comes after the stream has gone on without them, so nothing new of them is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import Final, NamedTuple

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.control.records.erasure_record import read_secret
from sessionizer.core.definition.erasure import PERSONAL, ErasedOnce
from sessionizer.core.wire.erased_keys import ErasedKeys
from sessionizer.core.wire.schema import CLIENT
from sessionizer.erasing.decoded import RAW, Piece
from sessionizer.erasing.records import cross_out_records
from sessionizer.erasing.search import Wanted
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import files_below, list_entries, remove_data, remove_tree
from sessionizer.home.names import (
    LATE_EVENTS,
    OPEN_SESSIONS,
    PROOF,
    QUARANTINE,
    SESSIONS,
    SESSIONS_DAILY,
    mint_prefix,
)
from sessionizer.home.roots import DataPath, folder_at, uri_of
from sessionizer.home.stream_home import GROUP_LOGS, StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.kept_spec import sink_folders
from sessionizer.spark.failures.query_failure import retry_conflicts
from sessionizer.spark.ingest.punctuation import ANNOUNCED_FILE, AnnouncedTimeouts
from sessionizer.spark.session import noting, temporary_settings
from sessionizer.spark.sinks.tables import table_exists
from sessionizer.spark.state.savepoints.saved_state import count_erased_in_savepoint, has_table, rewrite_savepoint
from sessionizer.state.lineages.origin import origins_of
from sessionizer.state.savepoints.listing import (
    RemovalMark,
    Savepoint,
    being_read,
    list_savepoints,
    needed_to_go_on,
    write_data_record,
)
from sessionizer.state.savepoints.manifest import SavepointKind, SavepointState

_VALUE: Final = "_value"
_TEXTS: Final = {QUARANTINE: "raw", PROOF: "samples"}
"""Column of each table whose texts may name people anywhere. A row of a proof only loses its samples."""
_SESSION: Final = "session_id"
_WHEN: Final = {
    SESSIONS: "started_at", LATE_EVENTS: "event_time", OPEN_SESSIONS: "started_at", SESSIONS_DAILY: "date",
    QUARANTINE: "lineage", PROOF: "lineage",
}  # fmt: skip
"""Column of each table with rows of people that tells whether a row is older than an erasure."""
_AT_ONCE: Final = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
}
_LOG_TOO_SHORT: Final = "DELTA_CANNOT_VACUUM_LITE"


class _Held(NamedTuple):
    """Table ``name`` with rows of erased people. ``column`` says whose they are, ``old`` (SQL) that they are to go.

    ``redacts``: its columns that become null in place of that. ``theirs`` (SQL): that an ``event`` of a session counts.
    """

    name: str
    location: str
    column: str
    old: str
    redacts: tuple[str, ...] = ()
    theirs: str = ""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Sweep of an ``erasure`` of ``people``, which was ``approved_at`` (epoch ms), from what the stream has written.

    What they did after the erasure stays. ``folders``: with savepoints of the stream.
    """

    spark: SparkSession
    home: StreamHome
    people: Sequence[str]
    erasure: ErasedOnce
    approved_at: int
    folders: Sequence[DataPath]
    say: Callable[[str], None]

    def count_rows(self) -> dict[str, int]:
        """Count the rows of these people in each table that is there. Writes nothing."""
        found = Counter[str]()
        for each in self._held():
            found[each.name] += self._find_in(self._table(each), each).count()
        return dict(found)

    def savepoints(self) -> list[Savepoint]:
        """Return the savepoints that may hold events of before the erasure, by their ids."""
        since = self._lineages_since()
        found = [each for folder in self.folders for each in list_savepoints(folder, epoch_ms())]
        new = {each.id for each in found if each.kind is SavepointKind.NATIVE and each.lineage in since}
        return sorted((each for each in found if each.id not in new), key=lambda each: each.id)

    def count_saved(self, saved: Savepoint) -> int:
        """Count the events of these people in a savepoint. One that is not canonical is counted as one of them."""
        if saved.manifest is None or not has_table(saved.manifest, GROUP_LOGS):
            return 1
        return count_erased_in_savepoint(self.spark, saved.home, saved.manifest, self._erased)

    def erase_rows(self, note: str, wait: Callable[[], None]) -> None:
        """Delete these people's rows, by a ``note``, ``wait`` for readers of the change feed, then delete old files."""
        held = [*self._held()]
        for each in held:
            values = self._values_in(self._table(each), each)
            theirs = f"rows.{each.column} = erased.{_VALUE} AND rows.{each.old}"
            with noting(self.spark, note):
                change_rows_of(self.spark, each.location, values, theirs, self._changes(each))
        wait()
        for each in held:
            purge(self.spark, each.location)
            for file in self._find_unlisted(each):
                remove_data(file)
            self.say(f"{each.name}: cleaned, old files deleted")
        for copy in list_entries(self.home.proofs):  # of a lineage of before, if its proof began before the approval
            if copy.name < mint_prefix(self.approved_at + 1_000):  # an id names the second
                remove_tree(copy)

    def erase_savepoints(self) -> list[str]:
        """Remove native and incomplete savepoints, and write the canonical ones anew that hold events of these people.

        One of an early release, without logs, is removed as well. Returns those that stay, because a process makes or
        reads them just now, or a command that was killed goes on with them.
        """
        found, born = self.savepoints(), min(self._lineages_since().values(), default=self.approved_at)
        busy, written = being_read(found, epoch_ms()) | needed_to_go_on(self.home), set[str]()
        for each in found:
            if each.state is SavepointState.MAKING and (each.at or 0) < born:
                busy.add(each.id)  # of a lineage before
            if each.id in busy or each.id in written or each.state is SavepointState.MAKING:
                continue
            if each.is_complete and each.manifest is not None and has_table(each.manifest, GROUP_LOGS):
                new = rewrite_savepoint(self.spark, each.home, each.manifest, self._erased)
                if new is None:
                    continue
                written.add(new)  # the list may have it as the remains of a killed sweep
                done = f"written anew as {new}"
            else:
                done = "removed"
            write_data_record(each.home.condemned, RemovalMark(epoch_ms()))
            if being_read([each], epoch_ms()) or each.id in needed_to_go_on(self.home):  # since the list was made
                remove_data(each.home.condemned)
                busy.add(each.id)
                continue
            remove_data(each.home.manifest)
            remove_tree(each.home.root)
            self.say(f"savepoint {each.id}: {done}")
        return sorted(busy.intersection(each.id for each in found))

    @property
    def _erased(self) -> ErasedKeys:
        return ErasedKeys(read_secret(), (self.erasure,))

    def erase_records(self) -> None:
        """Replace the values in the records and logs of the stream. Raises OSError."""
        for lineage in origins_of(self.home).keys() - {active_lineage(self.home)}:  # that one began without them
            announced = ANNOUNCED_FILE.of(self.home, lineage)
            if (told := announced.require()) is not None:
                kept = {client: ms for client, ms in told.timeouts.items() if not self._erased.names(CLIENT, client)}
                if kept != told.timeouts:
                    announced.write(AnnouncedTimeouts(kept))
        for file in cross_out_records(self.home, self.people):
            self.say(f"{file.name}: values replaced")

    def _lineages_since(self) -> dict[str, int]:
        """Return the lineages that began after the approval, and when. The ledger held from their first batch on."""
        origins = origins_of(self.home).items()
        return {name: each.at for name, each in origins if each is not None and each.at >= self.approved_at}

    def _held(self) -> Iterator[_Held]:
        """Yield each table that is there and may have rows of these people."""
        folders = dict.fromkeys(sink_folders(self.home, origins_of(self.home)))
        places = [place for each in folders for place in self.home.table_locations(each).items()]
        for name, location in (*places, (PROOF, uri_of(self.home.table(PROOF)))):
            if name in _WHEN and table_exists(self.spark, name, location):
                yield from filter(None, (self._held_in(name, location),))

    def _held_in(self, name: str, location: str) -> _Held | None:
        column, redacts, until = self.erasure.column, self.erasure.redacts, f"timestamp_millis({self.erasure.until_ms})"
        has_column = column in PERSONAL
        if name in _TEXTS or (name == OPEN_SESSIONS and not (has_column or redacts)):
            # it has no event time. Of open sessions all go, and the next batch with a snapshot brings them
            since = ", ".join(f"'{each}'" for each in ("", *self._lineages_since()))
            return _Held(name, location, _TEXTS.get(name, _SESSION), f"lineage NOT IN ({since})")
        columns = self.spark.read.format("delta").load(location).schema
        if name == SESSIONS and (redacts or not has_column):
            names = columns["events"].dataType.elementType.names if "events" in columns.names else []  # type: ignore[attr-defined]
            names = [*PERSONAL, *names]
        else:
            names = [] if redacts and name != LATE_EVENTS else columns.names
        found = tuple(each for each in redacts if each in names)
        if column not in names or (redacts and not found):
            return None
        old = f"{_WHEN[name]} <= {until}"
        if name != SESSIONS:
            kept = " OR ".join(f"rows.{each} IS NOT NULL" for each in found)
            return _Held(name, location, column, f"{old} AND ({kept})" if kept else old, found)
        kept = " OR ".join(f"event.{each} IS NOT NULL" for each in found) or "true"
        theirs = f"event.event_time <= {until} AND ({kept})"
        if has_column and found:
            old = f"{old} AND exists(rows.events, event -> {theirs})"
        return _Held(name, location, column if has_column else _SESSION, old, found, theirs)

    def _changes(self, held: _Held) -> dict[str, Column]:
        if held.name == PROOF:
            return {held.column: F.lit("[]")}
        if held.name != SESSIONS:
            return {name: F.lit(None) for name in held.redacts}
        return {"events": F.transform("rows.events", partial(self._redact, held.redacts))} if held.redacts else {}

    def _redact(self, redacts: Sequence[str], event: Column) -> Column:
        theirs = event["event_time"] <= F.timestamp_millis(F.lit(self.erasure.until_ms))
        if self.erasure.column not in PERSONAL:
            theirs &= F.coalesce(event[self.erasure.column].isin(list(self.people)), F.lit(False))  # noqa: FBT003  lit
        return reduce(lambda kept, name: kept.withField(name, F.when(~theirs, event[name])), redacts, event)

    def _table(self, held: _Held) -> DataFrame:
        return self.spark.read.format("delta").load(held.location).alias("rows")

    def _find_in(self, rows: DataFrame, held: _Held) -> DataFrame:
        values = self._values_in(rows, held)
        return rows.where(held.old).join(values, rows[held.column] == values[_VALUE], "left_semi")

    def _values_in(self, rows: DataFrame, held: _Held) -> DataFrame:
        """Return the people, or what ``rows`` have of them: texts of quarantine, ids of sessions."""
        people = tuple(self.people)
        values = self.spark.createDataFrame(pa.table({_VALUE: pa.array(people, pa.string())}))
        if held.column == _SESSION:
            theirs = rows.where(held.old)
            if held.name == SESSIONS:
                events = theirs.select(_SESSION, F.explode("events").alias("event")).where(held.theirs)
                named = F.col(f"event.{self.erasure.column}") == values[_VALUE]
                theirs = events.join(values, named, "left_semi")
            return theirs.select(F.col(_SESSION).alias(_VALUE)).distinct()
        if held.name not in _TEXTS:
            return values

        def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            wanted = Wanted(people)
            for batch in batches:
                texts = batch.column(0).to_pylist()
                found = (text is not None and wanted.count(Piece(RAW, text.encode(), is_text=True)) for text in texts)
                yield batch.filter(pa.array(map(bool, found), pa.bool_()))

        texts = rows.where(held.old).select(F.col(held.column).alias(_VALUE)).distinct()
        return texts.mapInArrow(find, texts.schema)

    def _find_unlisted(self, held: _Held) -> Iterator[DataPath]:
        """Yield the files with rows of these people that the table does not have, such as those of a killed batch.

        The rows were deleted before. So no process that has such a file in hand can commit it: a batch of the new
        lineage writes none of these rows, and Delta refuses a change of the files that had them.
        """
        folder = folder_at(held.location, "sink.path")
        there = {file.name: file for file in files_below(folder) if file.name.endswith(".parquet")}
        table = self._table(held)  # after the list, so that no file of the list is added later
        listed = {each.rpartition("/")[2] for each in table.inputFiles()}
        for name in sorted(there.keys() - listed):
            with suppress(PySparkException):  # it is being written, or was cut short
                rows = self.spark.read.schema(table.schema).parquet(uri_of(there[name])).alias("rows")
                if not self._find_in(rows, held).isEmpty():
                    yield there[name]


def change_rows_of(
    spark: SparkSession, location: str, values: DataFrame, theirs: str, changes: Mapping[str, Column]
) -> None:
    """Set ``changes`` in the ``rows`` that are ``theirs`` (SQL) by ``erased`` values. Without any, delete them."""

    def change() -> None:
        merge = DeltaTable.forPath(spark, location).alias("rows").merge(values.alias("erased"), theirs)
        # the condition of a DELETE or an UPDATE would name them in the log
        (merge.whenMatchedUpdate(set={**changes}) if changes else merge.whenMatchedDelete()).execute()

    retry_conflicts(change)


def purge(spark: SparkSession, location: str) -> None:
    """Delete the data files that the log names and the table no longer has. A running batch keeps its own."""
    with temporary_settings(spark, _AT_ONCE):
        spark.sql(f"REORG TABLE delta.`{location}` APPLY (PURGE)")  # rows that a deletion vector hides
        try:
            spark.sql(f"VACUUM delta.`{location}` LITE RETAIN 0 HOURS")
        except PySparkException as error:
            if _LOG_TOO_SHORT not in str(error):
                raise
            spark.sql(f"VACUUM delta.`{location}`")  # from now on the log is long enough
            spark.sql(f"VACUUM delta.`{location}` LITE RETAIN 0 HOURS")
