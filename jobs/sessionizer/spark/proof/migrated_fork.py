"""Fork of a lineage whose open events get the migrations of a spec: seeded like a new lineage, in a scratch home.

Batch 0 of the fork holds the migrated events. The recorded batches follow it, so their numbers are shifted. Sessions
that were over before the migration are written as rows of the batch before the recorded ones.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from sessionizer.checkpoint.batch_logs import planned_batch
from sessionizer.checkpoint.file_lists import copy_list_of_files
from sessionizer.checkpoint.names import EVENTS, PARTITIONS, PUNCTUATIONS, offset_log, source_log
from sessionizer.core.wire import rows
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import copy_file, entries_in, remove_tree
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.spark.ingest.kept_types import require_in_reach
from sessionizer.spark.proof.fork import Fork, copy_recorded_offsets, copying, recorded_offsets
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.sinks.guarded_aggregates import GuardedAggregates
from sessionizer.spark.sinks.table_shapes import STREAMED
from sessionizer.spark.sinks.tables import ensure_tables
from sessionizer.spark.sinks.write import Sinks
from sessionizer.spark.state.lineages.finished_rows import DECIDED, payload_so_far
from sessionizer.spark.state.lineages.migrated_events import MigratedEvents
from sessionizer.spark.state.lineages.new_lineage import NewLineage
from sessionizer.spark.state.open_events import kept_state, read_timeouts, reading_state
from sessionizer.state.lineages.handover import Handover
from sessionizer.state.lineages.origin import Origin
from sessionizer.state.lineages.standing import standing_of
from sessionizer.stream_spec.decisions import document_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sessionizer.home.roots import DataPath
    from sessionizer.spark.proof.recording import Recording
    from sessionizer.spark.sinks.examine import Examined
    from sessionizer.state.lineages.standing import Standing

_SEED: Final = 0
_MIGRATED: Final = "migrated"


def fork_with_migrations(
    spark: SparkSession, home: StreamHome, recording: Recording, folder: DataPath, examined: Examined
) -> Fork:
    """Seed a fork with the migrated open events of the batch before the recorded ones. The stream may run meanwhile.

    Raises MigrationRefused, InvalidSpec if the spec cannot take the migrated events, and BatchOutrun if Spark removes
    a file of the batch meanwhile.
    """
    with copying(home, recording, folder):
        copy_recorded_offsets(recording, folder)
        standing = standing_of(home, recording.batches.fork_at)
        migrated = MigratedEvents(spark, home, standing, recording.waiting, folder / _MIGRATED)
        require_in_reach(examined.guarded.payload, migrated.kept)
        migrated.decide()
        checkpoint = _seed(spark, home, recording, migrated, examined)
        _continue_with_recorded(recording, checkpoint, folder)
    fork = Fork(folder, checkpoint, recording.batches.fork_at - _SEED)
    _write_finished(spark, home, recording, fork, standing)
    return fork


def _seed(
    spark: SparkSession, home: StreamHome, recording: Recording, migrated: MigratedEvents, examined: Examined
) -> DataPath:
    """Make a lineage of the migrated events in a home of its own, and return its checkpoint."""
    standing = migrated.standing
    with reading_state(spark):
        timeouts = read_timeouts(spark, kept_state(home, standing))
    handover = Handover(
        origin=Origin("prove", epoch_ms()),
        spec=LineageSpec(document_of(recording.spec), epoch_ms()),
        kept=migrated.kept,
        watermark_ms=standing.watermark_ms,
        offset=None,
        timeouts=timeouts,
    )
    partitions = int(standing.settings[PARTITIONS])
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
            handover,
            permit=lambda: None,
            after=lambda _: None,
        )
        seeded.start(migrated.migrate())
        seeded.compare()
        return scratch.checkpoint(seeded.lineage)


def _continue_with_recorded(recording: Recording, checkpoint: DataPath, folder: DataPath) -> None:
    """Have batch 1 of the seeded ``checkpoint`` begin where the recorded batches do. Raises OSError."""
    seeded = offset_log(checkpoint) / str(_SEED)
    _, about, *_ = seeded.read_text(encoding="utf-8").splitlines()
    before = recorded_offsets(folder) / str(recording.batches.fork_at)
    version, _, *ends = before.read_text(encoding="utf-8").splitlines()
    seeded.write_text("\n".join([version, about, *ends]), encoding="utf-8")
    seeded.with_name(f".{seeded.name}.crc").unlink(missing_ok=True)
    last = planned_batch(recording.checkpoint, recording.batches.last)
    sources = [source_log(checkpoint, str(place)) for place in range(len(ends))]
    for source in sources:
        remove_tree(source)
    copy_list_of_files(recording.checkpoint, PUNCTUATIONS, last.last_file_offset(PUNCTUATIONS), checkpoint)
    if recording.spec.source.format == "files":
        copy_list_of_files(recording.checkpoint, EVENTS, last.last_file_offset(EVENTS), checkpoint)
        return
    sources[0].mkdir(parents=True)
    for file in entries_in(source_log(recording.checkpoint, "0")):
        copy_file(file, sources[0] / file.name)


def _write_finished(
    spark: SparkSession, home: StreamHome, recording: Recording, fork: Fork, standing: Standing
) -> None:
    """Write the sessions that were over before the migration, by the spec that wrote the recorded rows."""
    spec = recording.old_spec
    locations = {name: fork.table(name) for name in STREAMED}
    ensure_tables(spark, examine(spark, spec, home.platform).shapes(spec), locations)
    fields, measures = payload_so_far(spec, standing.kept), GuardedAggregates.of(spark, spec.measures)
    sinks = Sinks(recording.lineage, locations, fields, measures, spec.sink.keep_events, lambda: None, home.name)
    decided = spark.read.schema(rows.EMITTED).parquet(uri_of(fork.folder / _MIGRATED / DECIDED))
    sinks.write(decided.where(F.col("kind").isin(rows.SESSIONS, rows.QUARANTINE)), recording.batches.fork_at)
