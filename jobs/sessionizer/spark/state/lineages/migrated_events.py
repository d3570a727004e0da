"""Open events of a stopped stream for a new lineage: decided by the rules so far, then migrated (docs/migrations.md).

Sessions that are over, and duplicates that wait undecided, are not migrated. They are kept in a folder of the new
lineage until it is active. Then they are written into the tables that the old spec names, as batch 0 of the new
lineage. A table takes that batch once, so a killed command does it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sessionizer.checkpoint.log_entries import PARTITIONS, read_planned_batch
from sessionizer.control.records.erasure_record import read_erased
from sessionizer.core.definition.rules import Clock
from sessionizer.core.key_group.append_or_merge import NO_PLAN, GroupChanges, GroupRules
from sessionizer.core.key_group.table_rows import decide_rows
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.canonical import canonical_schema, code_admissions, coded_schema
from sessionizer.core.wire.codec import decode_log
from sessionizer.core.wire.schema import group_numbers
from sessionizer.errors import MigrationRefused, UnfaithfulState
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import list_names, remove_tree
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.lineage.batch_log import BatchLog, table_key
from sessionizer.lineage.kept_spec import SPEC_FILE, KeptTypes, read_applied
from sessionizer.migrations.declared import (
    AppliedMigration,
    CompiledMigration,
    compile_migrations,
    list_columns_after,
    record_applied,
)
from sessionizer.migrations.graph import bring_to
from sessionizer.spark.ingest.guard import arrow_fields, types_of
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.query.processor import Output
from sessionizer.spark.sinks.measures import GuardedAggregates
from sessionizer.spark.sinks.write import BatchCounts, Sinks
from sessionizer.spark.state.lineages.migrated_columns import PREFIX, migrate_rows, payload_names, payload_of
from sessionizer.spark.state.lineages.new_lineage import DividedEvents, count_shares, divide
from sessionizer.spark.state.open_events import (
    KeptState,
    admissions_in,
    count_by_kind,
    describe_state,
    drop_erased_from_logs,
    log_blobs,
    map_logs,
    read_state_timeouts,
    reading_state,
    select_open_events,
    tabulate_output,
    whole_logs,
)
from sessionizer.spark.state.savepoints.saved_state import read_saved_logs, saved_timeouts
from sessionizer.state.lineages.committed_batch import CommittedBatch
from sessionizer.state.savepoints.manifest import Manifest
from sessionizer.stream_spec.document.rules import Migration
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec

DECIDED: Final = "decided"
"""Folder with rows of ``rows.EMITTED``: what the key groups came to before the migration."""
_SEED_BATCH: Final = 0


def payload_so_far(spec: StreamSpec, kept: KeptTypes) -> schema.Payload:
    """Return the payload columns of the ``spec`` so far, in the newest of the types that each had."""
    types = {name: kept.payload[name][-1] for name in spec.mapping.payload if name in kept.payload}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return arrow_fields(StructType.fromJson({"type": "struct", "fields": fields}))


def write_finished_rows(
    spark: SparkSession,
    home: StreamHome,
    lineage: str,
    before: tuple[StreamSpec, KeptTypes],
    permit: Callable[[], None],
) -> None:
    """Write the finished rows of the migration of ``lineage`` as its batch 0, then remove them from its folder.

    ``before``: the spec and the types of the lineage that the rows come from. Without rows nothing is left to do.
    Raises LeaseLost, and the errors of the tables.
    """
    folder = home.lineage(lineage).migration
    if not list_names(folder):
        return
    decided = spark.read.schema(rows.EMITTED).parquet(uri_of(folder / DECIDED))
    write_first_batch(home, lineage, before[0], payload_so_far(*before), decided, permit)
    remove_tree(folder)


def write_first_batch(
    home: StreamHome,
    lineage: str,
    spec: StreamSpec,
    payload: schema.Payload,
    emitted: DataFrame,
    permit: Callable[[], None],
) -> BatchCounts:
    """Write the finished rows of ``emitted`` as batch 0, which a table takes once. Raises LeaseLost."""
    measures = GuardedAggregates.of(emitted.sparkSession, spec.measures)
    places, keep = home.streamed_locations(spec.sink.path), spec.sink.keep_events
    sinks = Sinks(lineage, places, payload, measures, keep, permit, stream=spec.name, begun=_SEED_BATCH)
    counts = sinks.write(emitted.where(F.col("kind").isin(rows.SESSIONS, rows.QUARANTINE)), _SEED_BATCH)
    written = [table_key(spec.sink.path, table) for table in counts.tables]
    BatchLog(home.lineage(lineage).batches).note_rows(_SEED_BATCH, written)
    return counts


@dataclass(frozen=True)
class MigratedEvents:
    """The open events of the stream of ``home`` after ``committed``, and the ``pending`` migrations that they get.

    ``folder``: where the results are. It survives a kill, and ``decide`` makes it anew. ``keeps_none``:
    all open events are left behind. ``saved``: a savepoint of the same batch, which is read in place of the
    checkpoint, because Spark replays a checkpoint each time. ``state``: its state, if it is native. ``final_by_ms``:
    the moment (epoch ms) up to which sessions are over, if the checkpoint cannot tell.
    """

    spark: SparkSession
    home: StreamHome
    committed: CommittedBatch
    pending: tuple[Migration, ...]
    folder: DataPath
    keeps_none: bool = False
    saved: tuple[SavepointHome, Manifest] | None = None
    state: KeptState | None = None
    final_by_ms: int | None = None

    @cached_property
    def kept(self) -> KeptTypes:
        """The types that the migrated events have. Raises InvalidSpec, MigrationRefused. Reads no event."""
        if self.keeps_none:
            return KeptTypes(self.committed.kept.time_mode)
        shape = from_arrow_schema(self._shape, prefer_timestamp_ntz=False)
        after = migrate_rows(self.spark.createDataFrame([], shape), self.compiled)
        return KeptTypes(self.committed.kept.time_mode).add_payload(types_of(payload_of(after)))

    def decide(self) -> None:
        """Decide the log of each key group by the rules so far, and keep the results. Reads the state once."""
        remove_tree(self.folder)
        with reading_state(self.spark):
            decided = map_logs(self._logs(), self._decider(), rows.EMITTED)
            decided.write.option("compression", "none").parquet(uri_of(self.folder / DECIDED))  # each blob is already

    def migrate(self, key_groups: int) -> DividedEvents:
        """Migrate the events, after ``decide``, for ``key_groups``. Raises MigrationRefused, UnfaithfulState."""
        after = migrate_rows(self.decided_events(), self.compiled)
        if self.keeps_none:
            after = self.spark.createDataFrame([], after.schema)
        shares = divide(after, key_groups, self.folder / "migrated", admissions_in(self._decided()))
        by_group, unfit = count_shares(shares)
        self.require_whole(unfit)
        events, decided = sum(by_group.values()), self.counts().get(rows.OPEN_EVENTS, 0)
        may_leave = self.keeps_none or any(each.where for each in self.pending)
        if events > decided or (events < decided and not may_leave):
            raise UnfaithfulState(self.home.name, f"of {decided} open events {events} were migrated")
        return DividedEvents(shares, key_groups, by_group)

    def decided_events(self) -> DataFrame:
        """Read the open events before their migration, by ``canonical_schema``, but for their admissions.

        Those are numbers, and name the columns that an event has afterwards, because no SQL has to change them.
        """
        return select_open_events(self._decided(), self._shape)

    def timeouts(self) -> Mapping[str, int]:
        """Read the clients' timeouts (ms) that were changed so far."""
        if self.saved is not None and self.state is None:
            return saved_timeouts(self.spark, *self.saved)
        with reading_state(self.spark):
            return read_state_timeouts(self.spark, self._state)

    def counts(self) -> dict[str, int]:
        """Return the number of decided rows of each kind."""
        return count_by_kind(self._decided())

    def require_whole(self, unfit: Mapping[str, int]) -> None:
        """Raise MigrationRefused if events are ``unfit``: by the name of what they lack."""
        for name, events in unfit.items():
            if events:
                by = next((each.id for each in self.pending if getattr(each, name)), self.pending[-1].id)
                cause = f"open events that would have no {name}: {events}"
                to_do = f"Write coalesce(…, {name}), or leave these events out by where"
                raise MigrationRefused(self.home.name, by, cause, to_do)

    def applied(self) -> tuple[AppliedMigration, ...]:
        """Return the migrations of a lineage that begins with the migrated events."""
        before = read_applied(self.home, self.committed.lineage) if self.saved is None else self.saved[1].migrations
        return (*before, *record_applied(self.pending, epoch_ms()))

    @cached_property
    def compiled(self) -> tuple[CompiledMigration, ...]:
        """The pending migrations as assignments. Raises MigrationRefused."""
        return compile_migrations(self.home.name, self.pending, payload_names(self._shape.names))

    @cached_property
    def _shape(self) -> pa.Schema:
        """Columns of the decided open events at the revision of this release."""
        empty = canonical_schema(self._state.events).empty_table()
        return coded_schema(bring_to(empty, self._state.revision).schema)

    @cached_property
    def _state(self) -> KeptState:
        return self.state or describe_state(self.committed)

    def _logs(self) -> DataFrame:
        """Return the logs of all groups, in the form of ``log_blobs``, without the events of erased keys."""
        partitions, erased = int(self.committed.settings[PARTITIONS]), read_erased(self.home)
        if self.saved is None or self.state is not None:
            logs = log_blobs(self.spark, self._state)
        else:
            logs = whole_logs(read_saved_logs(self.spark, self.saved[0], self._state.key_groups), partitions)
        return whole_logs(drop_erased_from_logs(logs, erased), partitions) if erased else logs

    def _decided(self) -> DataFrame:
        return self.spark.read.schema(rows.EMITTED).parquet(uri_of(self.folder / DECIDED))

    def _decider(self) -> Callable[[int, list[bytes]], Iterator[pa.RecordBatch]]:
        committed, state, final_by_ms = self.committed, self._state, self.final_by_ms
        if not Clock(committed.kept.time_mode).has_watermark:
            final_by_ms = committed.batch_at
        elif final_by_ms is None:
            final_by_ms = read_planned_batch(committed.checkpoint, committed.batch_id).watermark_ms
        spec = parse_recorded_spec(committed.spec, SPEC_FILE.of(self.home, committed.lineage).path)
        shared = GroupRules(rules_of(spec), payload_so_far(spec, committed.kept), state.key_groups)
        numbers, events = group_numbers(state.key_groups), state.events
        revision, migrations = state.revision, self.compiled

        def list_later(columns: Sequence[str]) -> list[str]:
            """Return the payload columns that rows with ``columns`` have after the migrations."""
            return [f"{PREFIX}{name}" for name in sorted(list_columns_after(payload_names(columns), migrations))]

        def decide_group(label: int, blobs: list[bytes]) -> Iterator[pa.RecordBatch]:
            found = decide_rows(decode_log(blobs), numbers[label], shared, final_by_ms, events)
            output = Output(numbers[label])
            output.step(GroupChanges(NO_PLAN, merged=found.merged))
            migrating, admissions = code_admissions(bring_to(found.rows, revision), list_later)
            output.table(rows.OPEN_EVENTS, migrating)
            output.row(rows.ADMISSIONS, len(admissions), json.dumps(admissions).encode())
            yield from tabulate_output(output).to_batches()

        return decide_group
