"""The state in a savepoint of either kind: open events, clients' timeouts, files that were read.

A canonical one yields the logs of its key groups, or its rows if this release keeps blobs in another form. A native one
is a checkpoint of one batch: its state is read by Spark's own reader, from a copy that names the place where it is.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.checkpoint.file_lists import SeenFile, read_seen_files
from sessionizer.core.wire.rows import REVISION
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.data_files import remove_tree
from sessionizer.home.local_files import close_to_others
from sessionizer.home.stream_home import CHECKPOINT, GROUP_LOGS, SEEN_FILES
from sessionizer.lineage.kept_spec import KeptTypes
from sessionizer.migrations.graph import revisions_before_head
from sessionizer.spark.state.group_logs import FirstLog, first_log_of
from sessionizer.spark.state.open_events import (
    KeptState,
    bring_to_head,
    open_event_schema,
    read_state_timeouts,
    reading_state,
)
from sessionizer.spark.state.savepoints.canonical_tables import (
    has_table,
    read_saved_logs,
    saved_events,
    saved_timeouts,
    savepoint_table,
)
from sessionizer.state.lineages.committed_batch import FILES
from sessionizer.state.savepoints.manifest import SavepointKind
from sessionizer.state.savepoints.native import install, require_same_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.home.stream_home import SavepointHome, StreamHome
    from sessionizer.state.savepoints.manifest import Manifest


@dataclass(frozen=True, slots=True)
class SavedState:
    """A saved state. ``open_events``: as logs, as a state keeps them, or by ``canonical_schema``.

    ``timeouts``: changed ones (ms).
    """

    open_events: DataFrame | KeptState | FirstLog
    timeouts: Mapping[str, int]


@contextmanager
def read_saved_state(
    spark: SparkSession, stream: StreamHome, savepoint: SavepointHome, manifest: Manifest
) -> Iterator[SavedState]:
    """Read the state in a complete savepoint, for as long as the context lasts.

    For a native one a copy is in the ``stream``'s data meanwhile. A copy that a kill left there is replaced. Raises
    UnusableSavepoint for one of another line of Spark or an unknown revision, UnwritablePath, DiskFull.
    """
    _require_known(manifest)
    if manifest.kind is SavepointKind.CANONICAL:
        yield SavedState(_open_events(spark, savepoint, manifest), saved_timeouts(spark, savepoint, manifest))
        return
    require_same_line(manifest, spark.version)
    copy = stream.unpacked / savepoint.id
    try:
        install(savepoint, manifest, copy)
        close_to_others(stream.unpacked)
        kept = KeptTypes(manifest.time_mode, manifest.payload_types)
        state = KeptState(copy, manifest.batch_id, manifest.key_groups, open_event_schema(kept), manifest.revision)
        with reading_state(spark):
            timeouts = read_state_timeouts(spark, state)
        yield SavedState(state, timeouts)
    finally:
        remove_tree(copy)


def _open_events(spark: SparkSession, savepoint: SavepointHome, manifest: Manifest) -> DataFrame | FirstLog:
    if has_table(manifest, GROUP_LOGS) and manifest.revision == REVISION:
        return first_log_of(read_saved_logs(spark, savepoint, manifest.key_groups), manifest.key_groups)
    found = saved_events(spark, savepoint, manifest)
    kept = KeptTypes(manifest.time_mode, manifest.payload_types)
    return bring_to_head(found, manifest.revision, open_event_schema(kept))


def _require_known(manifest: Manifest) -> None:
    """Raise UnusableSavepoint if no revision leads from the savepoint to the head."""
    if manifest.revision not in (REVISION, *revisions_before_head()):
        cause = f"its state has revision {manifest.revision}, and this release reads {REVISION}"
        raise UnusableSavepoint(manifest.id, f"{cause}. Restore it with the release that made it")


def read_saved_files(spark: SparkSession, savepoint: SavepointHome, manifest: Manifest) -> tuple[SeenFile, ...]:
    """Return the files that the source had read after the batch, if it is a folder of files."""
    if manifest.position.format != FILES:
        return ()
    if manifest.kind is SavepointKind.NATIVE:
        return tuple(read_seen_files(savepoint.part(CHECKPOINT), manifest.batch_id))
    rows = savepoint_table(spark, savepoint, SEEN_FILES).collect()
    return tuple(SeenFile(row.uri, row.changed_at_ms) for row in rows)
