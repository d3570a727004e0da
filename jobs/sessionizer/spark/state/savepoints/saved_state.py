"""The state in a savepoint of either kind: open events, clients' timeouts, files that were read.

A canonical one yields the logs of its key groups, or its rows if this release keeps blobs in another form. A native one
is a checkpoint of one batch: its state is read by Spark's own reader, from a copy that names the place where it is.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from sessionizer.checkpoint.file_lists import SeenFile, seen_files
from sessionizer.core.wire.canonical import canonical_schema
from sessionizer.core.wire.rows import REVISION
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.data_files import remove_tree
from sessionizer.home.disk.private_folder import close_to_others
from sessionizer.home.savepoint_home import CHECKPOINT, OPEN_EVENTS, SEEN_FILES, TIMEOUTS
from sessionizer.lineage.kept_spec import KeptTypes
from sessionizer.migrations.graph import UnknownRevision, bring_to
from sessionizer.spark.state.group_logs import FirstLog, begun_with
from sessionizer.spark.state.open_events import (
    KeptState,
    open_event_schema,
    read_timeouts,
    reading_state,
)
from sessionizer.spark.state.savepoints.canonical_tables import has_logs, saved_logs, savepoint_table
from sessionizer.state.lineages.standing import FILES
from sessionizer.state.savepoints.manifest import Kind
from sessionizer.state.savepoints.native import install, require_same_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.home.savepoint_home import SavepointHome
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.savepoints.manifest import Manifest


@dataclass(frozen=True, slots=True)
class SavedState:
    """A saved state. ``open_events``: as logs, as a state keeps them, or by ``canonical_schema``.

    ``timeouts``: changed ones (ms).
    """

    open_events: DataFrame | KeptState | FirstLog
    timeouts: Mapping[str, int]


@contextmanager
def saved_state(
    spark: SparkSession, stream: StreamHome, savepoint: SavepointHome, manifest: Manifest
) -> Iterator[SavedState]:
    """Read the state in a complete savepoint, for as long as the context lasts.

    For a native one a copy is in the ``stream``'s data meanwhile. A copy that a kill left there is replaced. Raises
    UnusableSavepoint for one of another line of Spark, UnwritablePath, DiskFull.
    """
    if manifest.kind is Kind.CANONICAL:
        rows = savepoint_table(spark, savepoint, TIMEOUTS).collect()
        yield SavedState(_open_events(spark, savepoint, manifest), {row.client: row.timeout_ms for row in rows})
        return
    require_same_line(manifest, spark.version)
    copy = stream.unpacked / savepoint.id
    try:
        install(savepoint, manifest, copy)
        close_to_others(stream.unpacked)
        kept = KeptTypes(manifest.time_mode, manifest.payload_types)
        state = KeptState(copy, manifest.batch_id, manifest.key_groups, open_event_schema(kept))
        with reading_state(spark):
            timeouts = read_timeouts(spark, state)
        yield SavedState(state, timeouts)
    finally:
        remove_tree(copy)


def _open_events(spark: SparkSession, savepoint: SavepointHome, manifest: Manifest) -> DataFrame | FirstLog:
    if has_logs(manifest) and manifest.revision == REVISION:
        return begun_with(saved_logs(spark, savepoint, manifest.key_groups), manifest.key_groups)
    found = savepoint_table(spark, savepoint, OPEN_EVENTS)
    return found if manifest.revision == REVISION else _at_head(found, manifest)


def _at_head(found: DataFrame, manifest: Manifest) -> DataFrame:
    """Bring open events of another revision to the head. Raises UnusableSavepoint if no revision leads there."""
    kept = KeptTypes(manifest.time_mode, manifest.payload_types)
    revision, shape = manifest.revision, canonical_schema(open_event_schema(kept))
    try:
        after = bring_to(shape.empty_table(), revision).schema
    except UnknownRevision as error:
        raise UnusableSavepoint(manifest.id, f"{error}. Restore it with the release that made it") from error

    def bring(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from bring_to(pa.Table.from_batches([batch]), revision).to_batches()

    return found.mapInArrow(bring, from_arrow_schema(after, prefer_timestamp_ntz=False))


def seen_in(spark: SparkSession, savepoint: SavepointHome, manifest: Manifest) -> tuple[SeenFile, ...]:
    """Return the files that the source had read after the batch, if it is a folder of files."""
    if manifest.position.format != FILES:
        return ()
    if manifest.kind is Kind.NATIVE:
        return tuple(seen_files(savepoint.part(CHECKPOINT), manifest.batch_id))
    rows = savepoint_table(spark, savepoint, SEEN_FILES).collect()
    return tuple(SeenFile(row.uri, row.changed_at_ms) for row in rows)
