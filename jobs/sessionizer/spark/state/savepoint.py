"""Makes a canonical savepoint of a committed batch, step by step. The stream is not touched, and may run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from sessionizer.errors import BatchOutrun, SessionizerError, UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import minted_id
from sessionizer.home.room import unwritable
from sessionizer.home.savepoint_home import OPEN_EVENTS, SEEN_FILES, TIMEOUTS, SavepointHome
from sessionizer.home.table_places import table_locations
from sessionizer.lineage.checkpoint import committed_batches
from sessionizer.spark.internals.java_errors import first_line
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.sinks.table_shapes import STREAMED
from sessionizer.spark.state.canonical_tables import savepoint_table
from sessionizer.spark.state.counting import Held, held_in
from sessionizer.spark.state.fingerprint import fingerprint
from sessionizer.spark.state.open_events import (
    KeptState,
    open_event_schema,
    read_open_events,
    read_timeouts,
    reading_state,
)
from sessionizer.state.beginning import Engaged, Failure, write_data_record
from sessionizer.state.data_digest import data_files
from sessionizer.state.manifest import Kind, Manifest, SinkTable, read_manifest, write_manifest
from sessionizer.state.savepoint_files import data_path, location, remove_tree
from sessionizer.state.savepoint_state import SavepointState
from sessionizer.state.shelf import examined
from sessionizer.state.sink_versions import version_with_batch
from sessionizer.state.standing import Standing, require_unchanged
from sessionizer.stream_spec.loading.spec_file import recorded_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.home.savepoint_home import DataPath
    from sessionizer.home.stream_home import StreamHome

_FILES_PER_TABLE: Final = 64
"""At most: a savepoint is read whole, and the fewer its files the fewer requests."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person wants: a savepoint ``id`` (None: made up) in ``folder``. ``live``: the stream may run meanwhile."""

    folder: DataPath
    why: str
    id: str | None = None
    live: bool = True


def make_savepoint(
    spark: SparkSession,
    stream: StreamHome,
    standing: Standing,
    wish: Wish,
    after: Callable[[str], None],
) -> Manifest:
    """Make the savepoint that is wished; one that is complete already under its id is returned as it is.

    ``after`` is told each step that is over. Raises BatchOutrun, UnusableSavepoint while another process makes it,
    UnwritablePath, DiskFull and what Spark raises; all of that is noted in the savepoint, which is failed then.
    """
    home = SavepointHome.of(wish.folder, wish.id or minted_id(epoch_ms()))
    done = _begin(home, wish.why)
    if done is not None:
        return done
    after("begun")
    making = _Making(spark, stream, standing, home, after)
    try:
        return making.run(live=wish.live)
    except Exception as error:
        cause = making.explained(error)
        write_data_record(home.failed, Failure(epoch_ms(), first_line(cause)))
        raise cause from error


def _begin(home: SavepointHome, why: str) -> Manifest | None:
    """Say that it is being made; what a killed process left of it is removed. The manifest if it is complete."""
    if home.root.is_dir():
        found = examined(home, epoch_ms())
        if found.state is SavepointState.COMPLETE:
            return read_manifest(home)
        if found.state in (SavepointState.MAKING, SavepointState.REMOVING):
            by = f" by process {found.begun.pid} on {found.begun.host}" if found.begun else ""
            raise UnusableSavepoint(home.id, f"it is {found.state}{by}")
        try:
            remove_tree(home.root)
        except OSError as error:
            raise unwritable(location(home.root), "a savepoint", error) from error
    write_data_record(home.begun, Engaged.now(why))
    if home.condemned.exists():  # looked for after: who removes it looks for us after that was written
        raise UnusableSavepoint(home.id, "it is being removed")
    return None


@dataclass(frozen=True, slots=True)
class _Making:
    spark: SparkSession
    stream: StreamHome
    standing: Standing
    home: SavepointHome
    after: Callable[[str], None]

    def run(self, *, live: bool) -> Manifest:
        timeouts = self._write_state()
        require_unchanged(self.stream, self.standing)
        self.after("state")
        self._write_seen_files()
        self.after("seen files")
        held = held_in(
            savepoint_table(self.spark, self.home, OPEN_EVENTS),
            rules_of(recorded_spec(self.standing.spec, self.stream.lineage(self.standing.lineage).spec)),
        )
        self.after("counts")
        manifest = self._manifest(held, timeouts, live=live)
        write_manifest(self.home, manifest)
        self.after("manifest")
        return manifest

    def explained(self, error: Exception) -> Exception:
        """What Spark fails of because the stream no longer keeps the batch is named so."""
        standing = self.standing
        if isinstance(error, SessionizerError):
            return error
        if standing.batch_id in committed_batches(self.stream.checkpoint(standing.lineage)):
            return error
        return BatchOutrun(self.stream.name, standing.batch_id, first_line(error))

    def _write_state(self) -> Mapping[str, int]:
        standing = self.standing
        state = KeptState(
            checkpoint=self.stream.checkpoint(standing.lineage),
            batch_id=standing.batch_id,
            key_groups=int(standing.spec["key_groups"]),
            events=open_event_schema(standing.kept),
        )
        with reading_state(self.spark):
            open_events = read_open_events(self.spark, state)
            self._write(OPEN_EVENTS, open_events.coalesce(_FILES_PER_TABLE))
            self.after("open events")
            timeouts = read_timeouts(self.spark, state)
        columns = [pa.array(timeouts.keys(), pa.string()), pa.array(timeouts.values(), pa.int64())]
        self._write(TIMEOUTS, self._frame(pa.table(columns, names=["client", "timeout_ms"])))
        return timeouts

    def _write_seen_files(self) -> None:
        seen = self.standing.seen_files
        columns = [
            pa.array([file.uri for file in seen], pa.string()),
            pa.array([file.changed_at for file in seen], pa.int64()),
        ]
        self._write(SEEN_FILES, self._frame(pa.table(columns, names=["uri", "changed_at_ms"])))

    def _frame(self, table: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(table).coalesce(1)

    def _write(self, part: str, frame: DataFrame) -> None:
        frame.write.format("delta").mode("errorifexists").save(location(self.home.part(part)))

    def _manifest(self, held: Held, timeouts: Mapping[str, int], *, live: bool) -> Manifest:
        standing, files = self.standing, tuple(data_files(self.home))
        return Manifest(
            id=self.home.id,
            kind=Kind.CANONICAL,
            stream=self.stream.name,
            owner=standing.record.owner,
            lineage=standing.lineage,
            batch_id=standing.batch_id,
            batch_at=standing.batch_at,
            made_at=epoch_ms(),
            live=live,
            checkpoint_format=standing.record.checkpoint_format,
            revision=standing.record.revision,
            spec=standing.spec,
            time_mode=standing.kept.time_mode,
            payload_types=standing.kept.payload,
            position=standing.position,
            watermark_ms=standing.watermark_ms,
            sinks=tuple(self._sinks()),
            counts=held.counts(len(timeouts), len(standing.seen_files), sum(file.bytes for file in files)),
            earliest_due_ms=held.earliest_due_ms,
            fingerprint=fingerprint(self.spark, standing.settings),
            files=files,
        )

    def _sinks(self) -> list[SinkTable]:
        lineage, batch_id = self.standing.lineage, self.standing.batch_id
        places = table_locations(self.stream, self.stream.platform, self.standing.spec["sink"]["path"])
        versions = {name: version_with_batch(data_path(places[name]), lineage, batch_id) for name in STREAMED}
        return [SinkTable(name, places[name], version) for name, version in versions.items()]
