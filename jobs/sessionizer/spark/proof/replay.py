"""Replay of recorded batches on a fork of their lineage, in one query, by the code and the spec of now.

A fork is a native copy of a batch in a scratch folder, and the recorded batches after it. If its open events get the
migrations of a spec, it is seeded like a new lineage, in a scratch home. Batch 0 of it holds the migrated events. The
recorded batches follow it, so their numbers are shifted. Sessions that were over before the migration are written as
rows of the batch before the recorded ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.causes.table import PRIVATE_DOOR, UNKNOWN
from sessionizer.checkpoint.files import begin_where, copy_batch, copy_sources, files_of_batch
from sessionizer.checkpoint.log_entries import (
    PARTITIONS,
    PUNCTUATIONS,
    SOURCES,
    list_begun_batches,
    list_committed_batches,
    offset_log,
    proof_of_batch,
    read_last_commit,
)
from sessionizer.checkpoint.state_files import move_schema
from sessionizer.core.wire import rows
from sessionizer.core.wire.schema import Payload
from sessionizer.counts import count_text
from sessionizer.errors import DamagedFile, NothingToProve, PrivateDoorBroken, QueryFailed, TransientError
from sessionizer.home.clock import DAY, epoch_ms
from sessionizer.home.data_files import copy_file, list_entries, make_data_folder, make_private_data, remove_tree
from sessionizer.home.local_files import unwritable
from sessionizer.home.names import STREAMED, mint_prefix
from sessionizer.home.roots import DataPath, add_scheme, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.excluded_ranges import file_position
from sessionizer.lineage.fingerprint import require_readable_lineage
from sessionizer.lineage.kept_spec import SPEC_FILE, LineageSpec, waiting_migrations
from sessionizer.spark.failures.query_failure import classify_failure
from sessionizer.spark.ingest.file_source.folder_watch import sizes_of
from sessionizer.spark.ingest.file_source.unfit_files import UnreadableFiles
from sessionizer.spark.ingest.guard import require_in_reach, require_readable_state
from sessionizer.spark.ingest.source import SourceMemory
from sessionizer.spark.ingest.topics import require_source
from sessionizer.spark.internals.java_errors import JavaError
from sessionizer.spark.query.assembly import session_query
from sessionizer.spark.sinks.examine import Examined, examine
from sessionizer.spark.sinks.measures import GuardedAggregates
from sessionizer.spark.sinks.tables import ensure_tables
from sessionizer.spark.sinks.write import BatchCounts, Sinks
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
from sessionizer.state.proof.result import Death, ReplayedBatches, choose_batches
from sessionizer.stream_spec.decisions import (
    KEY_GROUPS,
    MIGRATIONS,
    Change,
    changes_between,
    decisions_of,
    document_of,
    field_at,
    leaves,
    list_decisions,
)
from sessionizer.stream_spec.document.rules import Migration
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec

_REMOVES_FILES: Final = frozenset({"cleansource", "sourcearchivedir"})
"""Options of a source of files, in lower case, by which Spark removes the files that it has read."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Batches of ``lineage``, whose rows are in the tables of the folder ``sink``, and the ``spec`` of their replay.

    ``changes``: of the spec since the rows were written, among them those by the migrations that wait. ``notes``: what
    is left out, in words. ``old_spec``: what the lineage runs by. ``waiting``: migrations of the spec that its open
    events have not had.
    """

    home: StreamHome
    lineage: str
    checkpoint: DataPath
    sink: str | None
    spec: StreamSpec
    batches: ReplayedBatches
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    old_spec: StreamSpec
    waiting: tuple[Migration, ...] = ()


def read_recording(spark: SparkSession, home: StreamHome, spec: StreamSpec, count: int, first: int | None) -> Recording:
    """Choose ``count`` batches, the newest or from ``first`` on. Raises NothingToProve, BatchOutrun."""
    lineage = active_lineage(home)
    if lineage is None:
        raise NothingToProve(home.name, "it never ran")
    require_readable_lineage(home, lineage)
    record = SPEC_FILE.of(home, lineage).require()
    if record is None:
        raise DamagedFile(SPEC_FILE.of(home, lineage).path, "it is gone")
    decided = changes_between(list_decisions(record.document), decisions_of(spec))
    changes = tuple(change for change in decided if change.field != MIGRATIONS)  # applied ones may leave the file
    if not spec.source.keeps_events:
        raise NothingToProve(home.name, f"a {spec.source.format} keeps none of its events")
    for change in changes:
        if (known := field_at(change.field)) is not None and known.selects_events:
            raise NothingToProve(home.name, f"the batches were read from another source ({change})")
    checkpoint = home.checkpoint(lineage)
    with require_kept(home.name, first or 0):
        kept = list_committed_batches(checkpoint) & list_begun_batches(checkpoint)
        batches = choose_batches(home.name, kept, count, first, _obstacles(spark, home, lineage, spec))
    waiting, of_groups = waiting_migrations(home, lineage, spec), [each for each in changes if each.field == KEY_GROUPS]
    not_replayed = [f"{each} is not replayed: a rescale changes no session" for each in of_groups]
    return Recording(
        home=home,
        lineage=lineage,
        checkpoint=checkpoint,
        sink=record.sink,
        spec=replay_spec(spec, int(record.document[KEY_GROUPS])),
        batches=batches,
        changes=(*(change for change in changes if change.field != KEY_GROUPS), *_changes_by_migrations(waiting)),
        notes=(*([batches.note] if batches.note else []), *not_replayed),
        old_spec=parse_recorded_spec(record.document, SPEC_FILE.of(home, lineage).path),
        waiting=waiting,
    )


def replay_spec(spec: StreamSpec, key_groups: int) -> StreamSpec:
    """Return the spec for a replay in ``key_groups``: it leaves the files of the source where they are."""
    document = document_of(spec)
    if options := document["source"].get("options"):
        kept = {name: value for name, value in options.items() if name.lower() not in _REMOVES_FILES}
        document["source"]["options"] = kept
    return StreamSpec.model_validate({**document, KEY_GROUPS: key_groups})


def _obstacles(spark: SparkSession, home: StreamHome, lineage: str, spec: StreamSpec) -> Callable[[int], str | None]:
    """Return a function that says why a batch cannot be replayed, None if it can."""
    checkpoint = home.checkpoint(lineage)
    unreadable = set(UnreadableFiles.of(home, lineage).uris())

    def list_gone(uris: list[str]) -> list[str]:
        return [uri for uri, size in sizes_of(spark, uris).items() if size is None]

    @cache
    def obstacle(batch_id: int) -> str | None:
        if spec.source.format == "files":
            read = map(file_position, files_of_batch(checkpoint, batch_id))
            if gone := list_gone([uri for uri in read if uri not in unreadable]):
                return f"the source lacks {count_text(len(gone), 'file')} of it, such as {gone[0]}"
        if gone := list_gone(files_of_batch(checkpoint, batch_id, PUNCTUATIONS)):
            return f"{len(gone)} of its punctuations are gone, such as {gone[0]}: an earlier release removed them"
        return None

    return obstacle


def _changes_by_migrations(migrations: Sequence[Migration]) -> list[Change]:
    """Return what ``migrations`` do to open events as changes of fields, such as ``migrated.key``."""
    found = []
    for each in migrations:
        declared = each.model_dump(mode="json", exclude_defaults=True)
        dropped = {"drop": dict.fromkeys(declared.pop("drop", ()), "dropped")}
        del declared["id"]
        fields = leaves({**declared, **dropped}, "migrated.")
        found += [Change(name, None, f"{value} (migration {each.id})") for name, value in fields]
    return found


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


def fork_recorded(spark: SparkSession, recording: Recording, folder: DataPath) -> tuple[Examined, Fork]:
    """Examine the spec, and copy the batch before the recorded ones, or seed it if migrations wait.

    The stream may run. Raises SourceReplaced, InvalidSpec if the spec does not fit the lineage, MigrationRefused,
    BatchOutrun, UnwritablePath, DiskFull.
    """
    home, spec, checkpoint, at = recording.home, recording.spec, recording.checkpoint, recording.batches.fork_at
    require_source(spark, home, spec, recording.lineage)
    examined = examine(spark, spec, home.platform, SourceMemory.of(home, recording.lineage))
    if not recording.waiting:
        require_readable_state(home, recording.lineage, spec, examined.guarded.payload)
    committed, fork, last = None, Fork(folder, folder / "checkpoint"), recording.batches.last
    try:
        with require_kept(home.name, at):
            before = proof_of_batch(checkpoint, at)
            make_data_folder(write_recorded_offsets(folder))
            for batch_id in (at, *recording.batches.ids):  # Spark removes them some day
                copy_file(offset_log(checkpoint) / str(batch_id), write_recorded_offsets(folder) / str(batch_id))
            if recording.waiting:
                committed = read_committed_batch(home, at)
                fork = _seed(spark, recording, folder, committed, examined)
            else:
                are_files = spec.source.format == "files"
                copy_batch(checkpoint, at, fork.checkpoint, events_are_files=are_files, listed_until=last)
                move_schema(fork.checkpoint, add_scheme(fork.checkpoint))
        require_same_batch(home.name, checkpoint, at, before)
    except OSError as error:
        raise unwritable(uri_of(folder), "the copy of a lineage", error) from error
    if committed is not None:
        _write_finished(spark, recording, fork, committed)
    return examined, fork


_SEED: Final = 0
_MIGRATED: Final = "migrated"


def _seed(
    spark: SparkSession, recording: Recording, folder: DataPath, committed: CommittedBatch, examined: Examined
) -> Fork:
    """Seed a fork with the migrated events after ``committed``. Its batch 1 begins where the recorded batches do."""
    spec, at = recording.spec, committed.batch_id
    migrated = MigratedEvents(spark, recording.home, committed, recording.waiting, folder / _MIGRATED)
    require_in_reach(examined.guarded.payload, migrated.kept)
    migrated.decide()
    transfer = StateTransfer(
        origin=Origin("prove", epoch_ms()),
        spec=LineageSpec(document_of(spec), epoch_ms()),
        kept=migrated.kept,
        watermark_ms=committed.watermark_ms,
        offset=None,
        timeouts=migrated.timeouts(),
    )
    partitions = int(committed.settings[PARTITIONS])
    with TemporaryDirectory(prefix="sessionizer-prove-") as control:
        scratch = StreamHome.scratch(Path(control), recording.home.name, folder / "data")
        scratch.prepare()
        scratch.prepare_data()
        seeded = NewLineage(
            spark, scratch, spec, examined, partitions, transfer, permit=lambda: None, after=lambda _: None
        )
        seeded.start(migrated.migrate(spec.key_groups))
        seeded.compare()
        checkpoint = scratch.checkpoint(seeded.lineage)
    begin_where(checkpoint, _SEED, write_recorded_offsets(folder) / str(at))
    remove_tree(checkpoint / SOURCES)
    are_files = spec.source.format == "files"
    copy_sources(recording.checkpoint, recording.batches.last, checkpoint, are_files=are_files)
    return Fork(folder, checkpoint, at - _SEED)


def _write_finished(spark: SparkSession, recording: Recording, fork: Fork, committed: CommittedBatch) -> None:
    """Write the sessions that were over before the migration, by the spec that wrote the recorded rows."""
    spec = recording.old_spec
    examined = examine(spark, spec, recording.home.platform)
    sinks = _sinks_of(spark, recording, fork, spec, examined, payload_so_far(spec, committed.kept))
    decided = spark.read.schema(rows.EMITTED).parquet(uri_of(fork.folder / _MIGRATED / DECIDED))
    sinks.write(decided.where(F.col("kind").isin(rows.SESSIONS, rows.QUARANTINE)), recording.batches.fork_at)


def _sinks_of(
    spark: SparkSession, recording: Recording, fork: Fork, spec: StreamSpec, examined: Examined, payload: Payload
) -> Sinks:
    """Return the tables of a fork, which are made if they are not there."""
    locations = {name: fork.table(name) for name in STREAMED}
    ensure_tables(spark, examined.shapes(spec), locations)
    measures, keep = GuardedAggregates.of(spark, spec.measures), spec.sink.keep_events
    return Sinks(recording.lineage, locations, payload, measures, keep, lambda: None, recording.home.name)


_OF_THE_SOURCE = "source_"
"""Beginning of the causes of failures for which the source is to blame, not the release."""


class Replayed(NamedTuple):
    """Batches that were replayed, the rows that they read, the time it took, and the batch that failed, if any."""

    batches: tuple[int, ...]
    events: int
    seconds: float
    died: Death | None = None


def replay(
    spark: SparkSession, recording: Recording, fork: Fork, examined: Examined, say: Callable[[str], None]
) -> Replayed:
    """Run the recorded batches on the ``fork``, into its tables. Raises NothingToProve, transient errors."""
    spec, home = recording.spec, recording.home
    sinks = _sinks_of(spark, recording, fork, spec, examined, examined.guarded.payload_fields)
    query = session_query(spark, spec, examined.guarded, home.punctuations(recording.lineage))
    run, started, died = _Run(home.name, sinks, fork, recording.batches.ids, say), time.monotonic(), None
    try:
        query.run_planned_batches(run.write, fork.checkpoint, run.plan_next)
    except (PySparkException, JavaError) as error:
        died = Death(run.batch_id, _cause_of_death(home.name, run.batch_id, run.failure or error))
    return Replayed(run.batches[: run.over], run.events, time.monotonic() - started, died)


@dataclass(slots=True)
class _Run:
    """Run of recorded ``batches``, ``over`` of them done. Spark passes on only the text of a ``failure``."""

    stream: str
    sinks: Sinks
    fork: Fork
    batches: tuple[int, ...]
    say: Callable[[str], None]
    over: int = 0
    events: int = 0
    counts: BatchCounts | None = None
    failure: Exception | None = None
    is_begun: bool = False

    @property
    def batch_id(self) -> int:
        """Batch that runs."""
        return self.batches[self.over]

    def plan_next(self) -> bool:
        """Plan the next batch once one is over, False after the last. Raises NothingToProve if it did not run."""
        with self._kept_failure():
            if self.is_begun:
                committed = read_last_commit(self.fork.checkpoint)
                if self.counts is None or committed != self.fork.number_of(self.batch_id):
                    raise NothingToProve(self.stream, f"Spark does not run batch {self.batch_id} as it is recorded")
                self.events += self.counts.admitted + self.counts[rows.LATE] + self.counts[rows.QUARANTINE]
                self.counts = None
                self.over += 1
                self.say(f"batch {self.batches[self.over - 1]} replayed ({self.over} of {len(self.batches)})")
            self.is_begun = self.over < len(self.batches)
            if self.is_begun:
                self.fork.plan_batch(self.batch_id)
            return self.is_begun

    def write(self, emitted: DataFrame, number: int) -> None:
        """Write the rows of the batch. Raises NothingToProve for another batch than the recorded one."""
        with self._kept_failure():
            if number != self.fork.number_of(self.batch_id):
                raise NothingToProve(self.stream, f"Spark runs batch {number} in the place of {self.batch_id}")
            self.counts = self.sinks.write(emitted, self.batch_id)

    @contextmanager
    def _kept_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failure = error
            raise


def _cause_of_death(stream: str, batch_id: int, error: Exception) -> str:
    """Return the cause in a line. Raises the error if the surroundings or the source are to blame."""
    found = classify_failure(stream, error)
    if isinstance(found, NothingToProve | PrivateDoorBroken) or getattr(found, "cause", None) == PRIVATE_DOOR:
        raise found from error
    if isinstance(found, TransientError) and getattr(found, "cause", None) != UNKNOWN:
        raise found from error
    if isinstance(found, QueryFailed) and found.cause.startswith(_OF_THE_SOURCE):
        raise NothingToProve(stream, f"batch {batch_id} cannot be replayed: {found}") from error
    return str(found).splitlines()[0]
