"""Fork of a lineage: a native copy of one of its batches in a scratch folder, and the recorded batches after it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.batch_logs import proof_of_batch
from sessionizer.checkpoint.descriptions import move_schema
from sessionizer.checkpoint.names import offset_log
from sessionizer.checkpoint.native_copy import copy_batch
from sessionizer.errors import BatchOutrun
from sessionizer.home.clock import DAY, epoch_ms
from sessionizer.home.data_files import copy_file, list_entries, make_data_folder, make_private_data, remove_tree
from sessionizer.home.local_files import unwritable
from sessionizer.home.names import mint_prefix
from sessionizer.home.roots import add_scheme, uri_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.spark.proof.recording import Recording

_LEFT_FOR_MS: Final = DAY
"""Age (ms) at which a scratch folder belongs to a proof that was killed."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A copy of a lineage at a batch, in a scratch ``folder``. ``checkpoint`` goes on from there.

    ``shift``: the number of a recorded batch less its number in the checkpoint.
    """

    folder: DataPath
    checkpoint: DataPath
    shift: int = 0

    def table(self, name: str) -> str:
        """Return the location of a table that the replay writes."""
        return uri_of(self.folder / "tables" / name)

    def number_of(self, batch_id: int) -> int:
        """Return the number that the recorded batch has in the checkpoint."""
        return batch_id - self.shift

    def plan_batch(self, batch_id: int) -> None:
        """Have the next query run the recorded batch. Raises OSError."""
        copy_file(
            write_recorded_offsets(self.folder) / str(batch_id),
            offset_log(self.checkpoint) / str(self.number_of(batch_id)),
        )


def write_recorded_offsets(folder: DataPath) -> DataPath:
    """Return the folder with the offsets of the batches to replay, a file for each."""
    return folder / "recorded"


@contextmanager
def scratch_folder(home: StreamHome, proof_id: str) -> Iterator[DataPath]:
    """Make a folder for one proof, and remove it afterwards, with those that killed proofs left.

    Raises UnwritablePath, DiskFull.
    """
    _remove_left_folders(home)
    folder = home.proofs / proof_id
    try:
        make_private_data(home.proofs)
        make_data_folder(folder)
    except OSError as error:
        raise unwritable(uri_of(folder), "the copy of a lineage", error) from error
    try:
        yield folder
    finally:
        remove_tree(folder)


def fork_lineage(home: StreamHome, recording: Recording, folder: DataPath) -> Fork:
    """Copy the batch before the recorded ones as files. The stream may run meanwhile.

    Raises BatchOutrun if Spark removes a file of it meanwhile, UnwritablePath, DiskFull.
    """
    fork, batches = Fork(folder, folder / "checkpoint"), recording.batches
    files = recording.spec.source.format == "files"
    with check_batch_is_kept(home, recording, folder):
        copy_batch(
            recording.checkpoint,
            batches.fork_at,
            fork.checkpoint,
            events_are_files=files,
            listed_until=batches.last,
        )
        copy_recorded_offsets(recording, folder)
        move_schema(fork.checkpoint, add_scheme(fork.checkpoint))
    return fork


def copy_recorded_offsets(recording: Recording, folder: DataPath) -> None:
    """Copy the offsets of the recorded batches and of the one before, which Spark removes some day. Raises OSError."""
    make_data_folder(write_recorded_offsets(folder))
    for batch_id in (recording.batches.fork_at, *recording.batches.ids):
        copy_file(offset_log(recording.checkpoint) / str(batch_id), write_recorded_offsets(folder) / str(batch_id))


@contextmanager
def check_batch_is_kept(home: StreamHome, recording: Recording, folder: DataPath) -> Iterator[None]:
    """Check that the batch of the fork is kept until all of it is copied.

    Raises BatchOutrun if it is not, UnwritablePath, DiskFull.
    """
    at = recording.batches.fork_at
    try:
        before = proof_of_batch(recording.checkpoint, at)
        yield
        if proof_of_batch(recording.checkpoint, at) != before:
            raise BatchOutrun(home.name, at, "another batch took its place")
    except FileNotFoundError as error:
        raise BatchOutrun(home.name, at, f"{error.filename or error} is gone") from error
    except OSError as error:
        raise unwritable(uri_of(folder), "the copy of a lineage", error) from error


def _remove_left_folders(home: StreamHome) -> None:
    oldest = mint_prefix(epoch_ms() - _LEFT_FOR_MS)
    for entry in list_entries(home.proofs):
        if entry.name < oldest:
            remove_tree(entry)
