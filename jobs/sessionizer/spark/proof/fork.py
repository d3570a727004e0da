"""Fork of a lineage: a native copy of one of its batches in a scratch folder, and the recorded batches after it.

If its open events get the migrations of a spec, the fork is seeded like a new lineage, in a scratch home. Batch 0 of it
holds the migrated events. The recorded batches follow it, so their numbers are shifted. Sessions that were over before
the migration are written as rows of the batch before the recorded ones.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionizer.checkpoint.files import begin_where, copy_batch, copy_sources
from sessionizer.checkpoint.log_entries import PARTITIONS, SOURCES, offset_log, proof_of_batch
from sessionizer.checkpoint.state_files import move_schema
from sessionizer.core.wire import rows
from sessionizer.home.clock import DAY, epoch_ms
from sessionizer.home.data_files import copy_file, list_entries, make_data_folder, make_private_data, remove_tree
from sessionizer.home.local_files import unwritable
from sessionizer.home.names import STREAMED, mint_prefix
from sessionizer.home.roots import DataPath, add_scheme, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.spark.ingest.guard import require_in_reach
from sessionizer.spark.proof.replay import Recording
from sessionizer.spark.sinks.examine import Examined, examine
from sessionizer.spark.sinks.measures import GuardedAggregates
from sessionizer.spark.sinks.tables import ensure_tables
from sessionizer.spark.sinks.write import Sinks
from sessionizer.spark.state.lineages.migrated_events import DECIDED, MigratedEvents, payload_so_far
from sessionizer.spark.state.lineages.new_lineage import NewLineage
from sessionizer.state.lineages.committed_batch import (
    CommittedBatch,
    StateTransfer,
    read_committed_batch,
    require_kept,
    require_same_batch,
)
from sessionizer.state.lineages.origin import Origin
from sessionizer.stream_spec.decisions import document_of

_LEFT_FOR_MS: Final = DAY
"""Age (ms) at which a scratch folder belongs to a proof that was killed."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A copy of a lineage. ``shift``: the number of a recorded batch less its number in ``checkpoint``."""

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
        target = offset_log(self.checkpoint) / str(self.number_of(batch_id))
        copy_file(write_recorded_offsets(self.folder) / str(batch_id), target)


def write_recorded_offsets(folder: DataPath) -> DataPath:
    """Return the folder with the offsets of the batches to replay, a file for each."""
    return folder / "recorded"


@contextmanager
def scratch_folder(home: StreamHome, proof_id: str) -> Iterator[DataPath]:
    """Make a folder for one proof, then remove it with those of killed proofs. Raises UnwritablePath, DiskFull."""
    oldest, folder = mint_prefix(epoch_ms() - _LEFT_FOR_MS), home.proofs / proof_id
    for entry in list_entries(home.proofs):
        if entry.name < oldest:
            remove_tree(entry)
    try:
        make_private_data(home.proofs)
        make_data_folder(folder)
    except OSError as error:
        raise unwritable(uri_of(folder), "the copy of a lineage", error) from error
    try:
        yield folder
    finally:
        remove_tree(folder)


def fork_lineage(recording: Recording, folder: DataPath) -> Fork:
    """Copy the batch before the recorded ones, while the stream may run. Raises BatchOutrun, UnwritablePath."""
    fork, batches = Fork(folder, folder / "checkpoint"), recording.batches
    files = recording.spec.source.format == "files"
    with check_batch_is_kept(recording, folder):
        copy_batch(
            recording.checkpoint, batches.fork_at, fork.checkpoint, events_are_files=files, listed_until=batches.last
        )
        copy_recorded_offsets(recording, folder)
        move_schema(fork.checkpoint, add_scheme(fork.checkpoint))
    return fork


def copy_recorded_offsets(recording: Recording, folder: DataPath) -> None:
    """Copy the offsets of the recorded batches and of the one before, which Spark removes some day. Raises OSError."""
    source, target = offset_log(recording.checkpoint), write_recorded_offsets(folder)
    make_data_folder(target)
    for batch_id in (recording.batches.fork_at, *recording.batches.ids):
        copy_file(source / str(batch_id), target / str(batch_id))


@contextmanager
def check_batch_is_kept(recording: Recording, folder: DataPath) -> Iterator[None]:
    """Raise BatchOutrun if the batch of the fork is not kept until all of it is copied. Or UnwritablePath, DiskFull."""
    stream, checkpoint, at = recording.home.name, recording.checkpoint, recording.batches.fork_at
    try:
        with require_kept(stream, at):
            before = proof_of_batch(checkpoint, at)
            yield
        require_same_batch(stream, checkpoint, at, before)
    except OSError as error:
        raise unwritable(uri_of(folder), "the copy of a lineage", error) from error


_SEED: Final = 0
_MIGRATED: Final = "migrated"


def fork_with_migrations(spark: SparkSession, recording: Recording, folder: DataPath, examined: Examined) -> Fork:
    """Seed a fork with the migrated events of the batch before. Raises MigrationRefused, InvalidSpec, BatchOutrun."""
    with check_batch_is_kept(recording, folder):
        copy_recorded_offsets(recording, folder)
        committed = read_committed_batch(recording.home, recording.batches.fork_at)
        migrated = MigratedEvents(spark, recording.home, committed, recording.waiting, folder / _MIGRATED)
        require_in_reach(examined.guarded.payload, migrated.kept)
        migrated.decide()
        checkpoint = _seed(spark, recording, migrated, examined)
        # batch 1 of the seeded checkpoint begins where the recorded batches do
        begin_where(checkpoint, _SEED, write_recorded_offsets(folder) / str(recording.batches.fork_at))
        remove_tree(checkpoint / SOURCES)
        are_files = recording.spec.source.format == "files"
        copy_sources(recording.checkpoint, recording.batches.last, checkpoint, are_files=are_files)
    fork = Fork(folder, checkpoint, recording.batches.fork_at - _SEED)
    _write_finished(spark, recording, fork, committed)
    return fork


def _seed(spark: SparkSession, recording: Recording, migrated: MigratedEvents, examined: Examined) -> DataPath:
    committed = migrated.committed
    transfer = StateTransfer(
        origin=Origin("prove", epoch_ms()),
        spec=LineageSpec(document_of(recording.spec), epoch_ms()),
        kept=migrated.kept,
        watermark_ms=committed.watermark_ms,
        offset=None,
        timeouts=migrated.timeouts(),
    )
    partitions = int(committed.settings[PARTITIONS])
    with TemporaryDirectory(prefix="sessionizer-prove-") as control:
        scratch = StreamHome.scratch(Path(control), recording.home.name, migrated.folder.parent / "data")
        scratch.prepare()
        scratch.prepare_data()
        seeded = NewLineage(
            spark, scratch, recording.spec, examined, partitions, transfer, permit=lambda: None, after=lambda _: None
        )
        seeded.start(migrated.migrate(recording.spec.key_groups))
        seeded.compare()
        return scratch.checkpoint(seeded.lineage)


def _write_finished(spark: SparkSession, recording: Recording, fork: Fork, committed: CommittedBatch) -> None:
    """Write the sessions that were over before the migration, by the spec that wrote the recorded rows."""
    spec, home = recording.old_spec, recording.home
    locations = {name: fork.table(name) for name in STREAMED}
    ensure_tables(spark, examine(spark, spec, home.platform).shapes(spec), locations)
    fields, measures = payload_so_far(spec, committed.kept), GuardedAggregates.of(spark, spec.measures)
    sinks = Sinks(recording.lineage, locations, fields, measures, spec.sink.keep_events, lambda: None, home.name)
    decided = spark.read.schema(rows.EMITTED).parquet(uri_of(fork.folder / _MIGRATED / DECIDED))
    sinks.write(decided.where(F.col("kind").isin(rows.SESSIONS, rows.QUARANTINE)), recording.batches.fork_at)
