"""Fork of a lineage whose open events get the migrations of a spec: seeded like a new lineage, in a scratch home.

Batch 0 of the fork holds the migrated events. The recorded batches follow it, so their numbers are shifted. Sessions
that were over before the migration are written as rows of the batch before the recorded ones.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from sessionizer.checkpoint.file_lists import begin_where
from sessionizer.checkpoint.names import PARTITIONS, SOURCES
from sessionizer.checkpoint.native_copy import copy_sources
from sessionizer.core.wire import rows
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import remove_tree
from sessionizer.home.names import STREAMED
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.spark.ingest.kept_types import require_in_reach
from sessionizer.spark.proof.fork import Fork, check_batch_is_kept, copy_recorded_offsets, write_recorded_offsets
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.sinks.guarded_aggregates import GuardedAggregates
from sessionizer.spark.sinks.tables import ensure_tables
from sessionizer.spark.sinks.write import Sinks
from sessionizer.spark.state.lineages.finished_rows import DECIDED, payload_so_far
from sessionizer.spark.state.lineages.migrated_events import MigratedEvents
from sessionizer.spark.state.lineages.new_lineage import NewLineage
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.lineages.origin import Origin
from sessionizer.state.lineages.state_transfer import StateTransfer
from sessionizer.stream_spec.decisions import document_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sessionizer.home.roots import DataPath
    from sessionizer.spark.proof.recording import Recording
    from sessionizer.spark.sinks.examine import Examined
    from sessionizer.state.lineages.committed_batch import CommittedBatch

_SEED: Final = 0
_MIGRATED: Final = "migrated"


def fork_with_migrations(
    spark: SparkSession, home: StreamHome, recording: Recording, folder: DataPath, examined: Examined
) -> Fork:
    """Seed a fork with the migrated open events of the batch before the recorded ones. The stream may run meanwhile.

    Raises MigrationRefused, InvalidSpec if the spec cannot take the migrated events, and BatchOutrun if Spark removes
    a file of the batch meanwhile.
    """
    with check_batch_is_kept(home, recording, folder):
        copy_recorded_offsets(recording, folder)
        committed = read_committed_batch(home, recording.batches.fork_at)
        migrated = MigratedEvents(spark, home, committed, recording.waiting, folder / _MIGRATED)
        require_in_reach(examined.guarded.payload, migrated.kept)
        migrated.decide()
        checkpoint = _seed(spark, home, recording, migrated, examined)
        _continue_with_recorded(recording, checkpoint, folder)
    fork = Fork(folder, checkpoint, recording.batches.fork_at - _SEED)
    _write_finished(spark, home, recording, fork, committed)
    return fork


def _seed(
    spark: SparkSession, home: StreamHome, recording: Recording, migrated: MigratedEvents, examined: Examined
) -> DataPath:
    """Make a lineage of the migrated events in a home of its own, and return its checkpoint."""
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
        scratch = StreamHome.scratch(Path(control), home.name, migrated.folder.parent / "data")
        scratch.prepare()
        scratch.prepare_data()
        seeded = NewLineage(
            spark,
            scratch,
            recording.spec,
            examined,
            partitions,
            transfer,
            permit=lambda: None,
            after=lambda _: None,
        )
        seeded.start(migrated.migrate(recording.spec.key_groups))
        seeded.compare()
        return scratch.checkpoint(seeded.lineage)


def _continue_with_recorded(recording: Recording, checkpoint: DataPath, folder: DataPath) -> None:
    """Have batch 1 of the seeded ``checkpoint`` begin where the recorded batches do. Raises OSError."""
    begin_where(checkpoint, _SEED, write_recorded_offsets(folder) / str(recording.batches.fork_at))
    remove_tree(checkpoint / SOURCES)
    are_files = recording.spec.source.format == "files"
    copy_sources(recording.checkpoint, recording.batches.last, checkpoint, are_files=are_files)


def _write_finished(
    spark: SparkSession, home: StreamHome, recording: Recording, fork: Fork, committed: CommittedBatch
) -> None:
    """Write the sessions that were over before the migration, by the spec that wrote the recorded rows."""
    spec = recording.old_spec
    locations = {name: fork.table(name) for name in STREAMED}
    ensure_tables(spark, examine(spark, spec, home.platform).shapes(spec), locations)
    fields, measures = payload_so_far(spec, committed.kept), GuardedAggregates.of(spark, spec.measures)
    sinks = Sinks(recording.lineage, locations, fields, measures, spec.sink.keep_events, lambda: None, home.name)
    decided = spark.read.schema(rows.EMITTED).parquet(uri_of(fork.folder / _MIGRATED / DECIDED))
    sinks.write(decided.where(F.col("kind").isin(rows.SESSIONS, rows.QUARANTINE)), recording.batches.fork_at)
