"""Checks before a driver writes anything: of the spec against its source, and of the state against the tables.

A lineage must be able to go on by a changed spec (docs/adr/0043). Most changes hold from the next batch on. Changes
that would lose events are refused. Some alter a fact of the checkpoint, such as the number of key groups or the source.
Others alter a batch that was cut short after it had written: its rows are in a table, and its state is not committed.
Delta skips rows that a table has, while the state would follow the new spec.

The logs of tables are read as files, before Spark starts (docs/adr/0123). Delta is asked if the files do not tell.
Later changes by another program are reported, not refused. A table that no file system here can read is not watched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sessionizer.checkpoint.log_entries import read_begun_batch, read_last_commit
from sessionizer.core.key_group.table_rows import NOWHERE, session_rows
from sessionizer.core.wire import rows
from sessionizer.deployment.running_spec import RunningSpec, require_continuable, require_whole
from sessionizer.deployment.upgrade_plan import require_no_loss
from sessionizer.errors import (
    ControlUnreachable,
    DiskFull,
    InvalidSpec,
    StateBehindTables,
    StoreUnreachable,
    UnwritablePath,
)
from sessionizer.home.data_files import newest_version, translate_refusal
from sessionizer.home.roots import folder_at, is_local, resolve_place
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.ingest.guard import Guarded
from sessionizer.spark.ingest.punctuation import check_timeout_table
from sessionizer.spark.ingest.source import NOTHING_REMEMBERED, SourceMemory, read_guarded_source
from sessionizer.spark.internals.delta_log import last_version, last_versions
from sessionizer.spark.sinks import table_shapes
from sessionizer.spark.sinks.measures import measure_types
from sessionizer.spark.sinks.tables import table_exists
from sessionizer.spark.sinks.write import unpack
from sessionizer.state.lineages import table_changes
from sessionizer.state.lineages.origin import origins_of
from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class Examined:
    """A spec that fits its source: the stream's ``guarded`` rows and the columns that its ``measures`` add."""

    guarded: Guarded
    measures: StructType

    def shapes(self, spec: StreamSpec) -> tuple[table_shapes.TableShape, ...]:
        """Return the tables that the stream writes."""
        sessions = table_shapes.sessions_shape(spec, self.guarded.payload_fields, self.measures)
        return sessions, table_shapes.quarantine_shape(), table_shapes.late_events_shape(self.guarded.payload)


def examine(
    spark: SparkSession, spec: StreamSpec, platform_home: Path, memory: SourceMemory = NOTHING_REMEMBERED
) -> Examined:
    """Resolve every expression of ``spec`` against its source. Reads no event. Raises InvalidSpec, naming the field."""
    guarded = read_guarded_source(spark, spec, platform_home, memory)
    measures = types_of_measures(spark, spec, guarded)
    if spec.rules.client_timeouts_table is not None:
        check_timeout_table(spark, resolve_place(spec.rules.client_timeouts_table, platform_home))
    return Examined(guarded, measures)


def types_of_measures(spark: SparkSession, spec: StreamSpec, guarded: Guarded) -> StructType:
    """Return the columns that the spec's measures add. Raises InvalidSpec."""
    if not spec.measures:
        return StructType()
    nothing = spark.createDataFrame([], rows.EMITTED)
    shape = session_rows(guarded.payload_fields, keep_events=True)
    return measure_types(unpack(nothing, rows.SESSIONS, shape, NOWHERE), spec.measures)


def half_written_batch(spark: SparkSession, home: StreamHome, lineage: str, tables: Iterable[str]) -> int | None:
    """Return the batch that one of ``tables`` (locations) has rows of and the checkpoint no commit, or None."""
    begun = read_begun_batch(home.checkpoint(lineage))
    if begun is None or begun == read_last_commit(home.checkpoint(lineage)):
        return None
    return begun if any(last_version(spark, table, lineage) >= begun for table in tables) else None


def require_continuity(spark: SparkSession, running: RunningSpec, home: StreamHome, lineage: str) -> None:
    """Raise InvalidSpec if ``lineage`` cannot go on by the spec, NotAccepted if open sessions would lack something."""
    if running.before is None or not running.applied or read_begun_batch(home.checkpoint(lineage)) is None:
        return
    require_continuable(home.name, running.applied)
    require_no_loss(home, lineage, running.spec)
    # the tables that the lineage wrote so far: by the new spec it may write others
    folder = running.before.get("sink.path", running.spec.sink.path)
    require_whole(running.applied, half_written_batch(spark, home, lineage, home.streamed_locations(folder).values()))


@dataclass(slots=True)
class TableCheck:
    """The tables of ``spec`` against ``lineage``, if any. ``accepts``: a user accepts the tables as they are."""

    home: StreamHome
    spec: StreamSpec
    lineage: str | None
    accepts: bool
    say: Callable[[str], None]
    _batches: dict[str, Mapping[str, int] | None] = field(default_factory=dict)
    """The newest batch of each lineage by table that was looked at, None if there is no table."""

    def check_files(self) -> None:
        """Check the tables whose files can be read here. Raises StateBehindTables, RowsMissing, DataAway."""
        for name, location in self.home.streamed_locations(self.spec.sink.path).items():
            if self._read(name, location):
                self._require(name, location)

    def check_with_delta(self, spark: SparkSession) -> None:
        """Check the other tables. Raises StateBehindTables, RowsMissing, DataAway."""
        for name, location in self.home.streamed_locations(self.spec.sink.path).items():
            if name not in self._batches:
                self._batches[name] = last_versions(spark, location) if table_exists(spark, name, location) else None
                self._require(name, location)

    def require_known(self) -> None:
        """Raise StateBehindTables for a later lineage or operation in the own tables that this home does not know."""
        state, tables = self._state(), self.home.streamed_locations(self.spec.sink.path)
        unknown = set[str]()
        for name, batches in self._batches.items():
            table = table_changes.TableState(name, tables[name], batches, {})
            for writer in table_changes.unknown_changes(state, table):
                error = StateBehindTables(self.spec.name, table.location, writer, (batches or {}).get(writer), None)
                if not self.accepts:
                    raise error
                self.say(f"accepted: {error}")
                unknown.add(writer)
        if unknown:
            table_changes.accept_rows(self.home, self.spec.sink.path, (), unknown)

    def _read(self, name: str, location: str) -> bool:
        """Whether the files told of the table. Raises ControlUnreachable, DiskFull, UnwritablePath."""
        with suppress(InvalidSpec, StoreUnreachable):  # nothing here reads such a URI: Spark may
            table = folder_at(location)
            try:
                log = table_changes.read_table_log(table)
            except OSError as error:
                if is_local(table):
                    raise translate_refusal(table, f"the table {name}", error) from error
                return False
            if log is None or log.batches is not None:
                self._batches[name] = None if log is None else log.batches
                return True
        return False

    def _require(self, name: str, location: str) -> None:
        folder, batches = self.spec.sink.path, self._batches[name]
        written = table_changes.read_recorded_rows(self.home, folder, name)
        if batches is None and table_changes.has_recorded_rows(self.home, folder, name):
            written = written or {"": -1}
        table, state = table_changes.TableState(name, location, batches, written), self._state()
        error = table_changes.find_inconsistency(state, table)
        if error is not None and self.accepts:
            table_changes.accept_rows(self.home, folder, (name,), ())
            self.say(f"accepted: {error}")
            error = table_changes.find_inconsistency(state, replace(table, written={}))
        if error is not None:
            raise error

    def _state(self) -> table_changes.StreamState:
        return table_changes.StreamState.read(self.home, self.lineage)


EVERY_S: Final = 60.0


class ChangeWatch:
    """A look at the ``tables`` (name to location) of ``lineage`` once a minute. ``say`` gets a line for each change."""

    def __init__(self, home: StreamHome, lineage: str, tables: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._told = table_changes.NotifiedChanges(home.lineage(lineage).table_changes)
        self._tables, self._say = tables, say
        self._ours = {*origins_of(home), lineage}
        self._next_look, self._is_first = 0.0, True

    @property
    def is_due(self) -> bool:
        """Whether it is time for a look."""
        return time.monotonic() >= self._next_look

    def look(self) -> None:
        """Look at the tables if it is time. An unreadable table is tried again the next time."""
        if self.is_due:
            self.look_now()

    def look_now(self) -> None:
        """Look at the tables."""
        self._next_look = time.monotonic() + EVERY_S
        looked, changes = dict[str, int](), list[table_changes.TableChange]()
        for name, location in self._tables.items():
            with suppress(InvalidSpec, StoreUnreachable, OSError, ValueError, ImportError):
                table, version = folder_at(location), self._told.looked(location)
                if version is None:
                    version = newest_version(table)  # the past of a table is not looked at
                else:
                    cut = self._is_first
                    version, found = table_changes.list_changes_after(table, name, version, self._ours, cut=cut)
                    changes += found
                if version is not None:
                    looked[location] = version
        for change in changes:
            self._say(f"not by this stream: {change}")
        with suppress(UnwritablePath, DiskFull, ControlUnreachable):
            self._told.note(looked, changes)
            self._is_first = False
