"""Native savepoints: the files of one committed batch, for the same line of Spark and the same key groups.

No Spark runs: they are quick to make and to start from, and of no use to another release. A savepoint for long keeping
is canonical.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.checkpoint.descriptions import move_schema
from sessionizer.checkpoint.native_copy import copy_batch, copy_files
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.data_files import files_below, make_data_folder, relative_name, remove_tree
from sessionizer.home.local_files import unwritable
from sessionizer.home.roots import add_scheme, uri_of
from sessionizer.home.stream_home import CHECKPOINT
from sessionizer.state.lineages.committed_batch import FILES, require_unchanged
from sessionizer.state.savepoints.manifest import SavepointKind
from sessionizer.state.savepoints.savepoint_writer import SavepointWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import SavepointHome, StreamHome
    from sessionizer.state.lineages.committed_batch import CommittedBatch
    from sessionizer.state.savepoints.manifest import Manifest
    from sessionizer.state.savepoints.savepoint_writer import SavepointRequest


def make_native_savepoint(
    stream: StreamHome, committed: CommittedBatch, asked: SavepointRequest, after: Callable[[str], None]
) -> Manifest:
    """Make the requested savepoint, or return the one that is complete already under its id.

    Raises BatchOutrun, UnusableSavepoint, UnwritablePath, DiskFull, and ValueError if Spark's files have an unknown
    format.
    """
    writer = SavepointWriter.of(stream, committed, asked, after)
    done = writer.begin()
    if done is not None:
        return done
    with writer.noting_failure():
        files = committed.position.format == FILES
        target = writer.home.part(CHECKPOINT)
        make_data_folder(target)
        copy_batch(stream.checkpoint(committed.lineage), committed.batch_id, target, events_are_files=files)
        require_unchanged(stream, committed)
        writer.after("checkpoint")
        return writer.complete(SavepointKind.NATIVE, None, None, {})


def require_same_line(manifest: Manifest, running: str) -> None:
    """Raise UnusableSavepoint if the ``running`` Spark may read the state in another way than it was written."""
    wrote = manifest.fingerprint.versions["spark"]
    if wrote.split(".")[:2] != running.split(".")[:2]:
        why = f"it is native, of Spark {wrote}, and this is Spark {running}: another line may read its files otherwise"
        raise UnusableSavepoint(manifest.id, why)


def install(home: SavepointHome, manifest: Manifest, checkpoint: DataPath) -> None:
    """Copy a native savepoint as the checkpoint of a lineage that is not active yet, into a new or empty folder.

    The savepoint stays as it is. Raises UnusableSavepoint for one of another kind, UnwritablePath, and ValueError.
    """
    if manifest.kind is not SavepointKind.NATIVE:
        raise UnusableSavepoint(home.id, f"it is {manifest.kind}: its tables are seeded, not copied")
    try:
        remove_tree(checkpoint)
        kept = home.part(CHECKPOINT)
        copy_files(kept, (relative_name(file, kept) for file in files_below(kept)), checkpoint)
        move_schema(checkpoint, add_scheme(checkpoint))
    except OSError as error:
        raise unwritable(uri_of(checkpoint), "the checkpoint of a new lineage", error) from error
